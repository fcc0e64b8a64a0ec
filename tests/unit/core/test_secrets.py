"""Secrets in the forms that are known: found, replaced, and not seen where there are none."""

import pytest

from steelyard.core import wording
from steelyard.core.outside import Completed, SavedSetting
from steelyard.core.wording import PreflightError
from steelyard.systems.existing import without_secrets

_SECRET = "Zq9secret"
_COMMANDS = (
    "redis-cli -a Zq9secret ping",
    "redis-cli -h x -aZq9secret ping",
    "valkey-cli --pass Zq9secret ping",
    "redis-cli AUTH Zq9secret",
    "redis-cli config set requirepass Zq9secret",
    "memtier_benchmark -a Zq9secret",
    "mysql -pZq9secret",
    "/usr/bin/mysqldump -u root -pZq9secret db",
    "mariadb-admin -u root -pZq9secret",
    "curl -u a:Zq9secret http://x",
    "curl -su admin:Zq9secret http://x",
    "curl http://x?a=1&b=2 --user 'admin:Zq9secret'",
    "curl -H 'Authorization: Bearer Zq9secret' http://x",
    "curl -H Authorization: Basic Zq9secret http://x",
    "curl -H 'X-Auth-Token: Zq9secret'",
    "curl -H X-Vault-Token: Zq9secret http://x",
    'curl -H "PRIVATE-TOKEN: Zq9secret"',
    'curl -d \'{"password": "Zq9secret"}\' http://x',
    "ipmitool -I lanplus -H bmc -U root -P Zq9secret chassis power cycle",
    "ipmitool -H bmc -PZq9secret power on",
    "ipmipower -h bmc -u root -p Zq9secret --cycle",
    "fence_ipmilan -a bmc -l root -p Zq9secret -o reboot",
    "tool --api-key=Zq9secret",
    "tool --api-key Zq9secret",
    "tool --apikey=Zq9secret",
    "env AWS_SECRET_ACCESS_KEY=Zq9secret x",
    "AWS_SESSION_TOKEN=Zq9secret aws s3 ls",
    "sshpass -p Zq9secret ssh -p 22 host",
    "sshpass -pZq9secret ssh host",
    "SSHPASS=Zq9secret sshpass -e ssh host",
    "PGPASSWORD=Zq9secret psql",
    "MYSQL_PWD=Zq9secret mysql",
    "REDISCLI_AUTH=Zq9secret redis-cli",
    "psql postgresql://u:Zq9secret@h/db",
    "psql 'host=h user=u password=Zq9secret'",
    "psql -c \"ALTER ROLE app PASSWORD 'Zq9secret'\"",
    "wget --password=Zq9secret http://x",
    "wget --http-password Zq9secret http://x",
    "http_proxy=http://a:Zq9secret@h curl http://x",
    "openssl enc -pass pass:Zq9secret",
    "gpg --batch --passphrase Zq9secret -d f",
    "vault login --token=Zq9secret",
    "docker login -u a -p Zq9secret reg",
    "mongosh -u a -p Zq9secret",
    "ldapsearch -D cn=a -w Zq9secret",
    "sqlcmd -U sa -P Zq9secret",
    "lftp -u a,Zq9secret h",
    "smbclient -U a%Zq9secret //h/s",
    "sysbench --pgsql-password=Zq9secret oltp",
    "sh -c 'export DB_PASSWORD=Zq9secret; run'",
    "kubectl create secret generic a --from-literal=password=Zq9secret",
)
_INNOCENT = (
    "systemctl restart postgresql",
    "pg_ctl -D /srv/data -w restart",
    "ipmitool -I lanplus -H bmc -U root -f /etc/ipmi.pass chassis power cycle",
    "ipmitool -I lanplus -H bmc -p 623 -U root -E chassis power cycle",
    "redis-cli -h 127.0.0.1 -p 6379 config set appendonly yes",
    "redis-cli -a $REDIS_PASSWORD ping",
    "redis-cli --askpass ping",
    "redis-cli config get requirepass",
    "mysql --defaults-extra-file=/etc/my.cnf -P 3306 -e 'select 1'",
    "mysql -p$PW -u root",
    "systemctl stop mysql && mkdir -pv /var/lib/mysql",
    "rsync -a /var/lib/mysql -pv /backup",
    "mkdir -p /srv/data",
    "curl -sSf -o out.json http://host:8080/reset",
    "curl -u $WHO:$PW http://host",
    "curl -u admin: http://host",
    "curl --netrc-file /etc/netrc -H 'Content-Type: application/json' -d @body.json http://host",
    'curl -H "Authorization: Bearer $TOKEN" http://host',
    "curl -H @/etc/header http://host",
    "curl --user-agent=me:you http://host",
    "docker run -u 1000:1000 -p 8080:80 image",
    "ssh -p 2222 -i /root/.ssh/id_ed25519 db1 sudo systemctl restart redis",
    "sshpass -e ssh -p 2222 db1 reboot",
    "sshpass -f /etc/pass ssh -p 2222 db1 reboot",
    "env PGPASSFILE=/etc/pgpass psql --no-password -d bench",
    "PGPASSWORD=$PW psql -h db1",
    "psql -U postgres -h db1 -c 'CHECKPOINT'",
    "psql --username=app --dbname=bench -f reset.sql",
    "kubectl rollout restart deployment/db -n shop",
    "kubectl get secret db-user -o yaml",
    "ansible-playbook --vault-password-file /etc/vault restart.yml",
    "initdb --auth=trust --pwfile=/etc/pw -D /srv/data",
    "llm --max-tokens=500 --token-limit 5",
    "pg_basebackup -h db1 -D /srv/data -X stream -P -R",
    "zfs rollback -r tank/pg@prepared",
    "sysctl -w vm.swappiness=1",
    "sort -u -k 2 names.txt",
    "vault kv get -field=password secret/db",
    "tool --token-file=/run/token --password-file=/run/pw",
    "tool --token=@/run/token --secret=file:/run/secret",
    "openssl enc -pass env:PW -pass file:/etc/pw",
    "git clone https://github.com/a/b.git",
    "scp -P 2222 file user@host:/tmp/",
    "virsh reset guest-1",
    "aws rds reboot-db-instance --db-instance-identifier bench",
    "chpasswd --encrypted < /etc/hashes",
    "pgbench -p 5432 -U app -c 10",
    "echo 3 > /proc/sys/vm/drop_caches",
    "tool --private-key=/etc/ssl/key.pem --tls-key /etc/k --key id",
    "systemd-run --uid=postgres --property=MemoryMax=4G sleep 1",
)
_SCRIPTS = (
    "\\setenv PGPASSWORD Zq9secret",
    "ALTER ROLE x PASSWORD $$Zq9secret$$;",
    "CREATE USER x PASSWORD E'Zq9secret'",
    "ALTER USER x WITH ENCRYPTED PASSWORD 'Zq9secret'",
    "CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'a', password 'Zq9secret')",
    "COPY t FROM PROGRAM 'curl -u a:Zq9secret http://x'",
    "copy t from\nprogram\n$x$curl -u a:Zq9secret http://x$x$",
    "SELECT pgp_sym_decrypt(x,'Zq9secret')",
    "SELECT pgp_sym_decrypt(decode(replace(x,'a','b'),'base64'), 'Zq9secret')",
    "\\! sshpass -p Zq9secret ssh x",
    "\\shell curl -u a:Zq9secret http://x",
    "\\set x `redis-cli -a Zq9secret get x`",
    "select dblink_connect('host=x password=Zq9secret')",
)
_INNOCENT_SCRIPTS = (
    "SELECT token, secret FROM t WHERE token='a1b2c3d4'",
    "INSERT INTO users (name, password) VALUES ('a','b')",
    "\\setenv PGPASSFILE /x",
    "\\setenv PAGER less",
    "ALTER ROLE x PASSWORD NULL",
    "ALTER ROLE x PASSWORD :'pw'",
    "SELECT pgp_sym_decrypt(x, :'key')",
    "SELECT pgp_sym_decrypt(x, key) FROM t, 'a'",
    "COPY t FROM PROGRAM 'zcat /srv/x.gz'",
    "COPY t FROM PROGRAM 'curl -u \"$WHO:$PW\" http://x'",
    "\\set id random(1, 1000)",
    "create table users (name text, password text default 'x')",
)


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_secret_in_a_command_is_found_and_replaced(command: str) -> None:
    """Nothing of it stays, and a second time changes nothing."""
    assert wording.command_holds_secret(command)
    shown = wording.redacted(f"before\n{command}\nafter")
    assert _SECRET not in shown
    assert "***" in shown
    assert wording.redacted(shown) == shown
    assert shown.startswith("before\n")
    assert shown.endswith("\nafter")


@pytest.mark.parametrize("command", _INNOCENT)
def test_an_ordinary_command_is_no_secret(command: str) -> None:
    """References to variables and files are none, nor are ports, users and names of secrets."""
    assert not wording.command_holds_secret(command)
    assert wording.redacted(command) == command


@pytest.mark.parametrize("script", _SCRIPTS)
def test_a_secret_in_a_script_is_found(script: str) -> None:
    """In its SQL, in commands of psql and pgbench, and in what it gives to a shell."""
    assert wording.script_holds_secret(f"SELECT 1;\n{script}\n;SELECT 2;")
    assert _SECRET not in wording.redacted(script)


@pytest.mark.parametrize("script", _INNOCENT_SCRIPTS)
def test_an_ordinary_script_is_no_secret(script: str) -> None:
    """A column may have any name, and a variable may hold the password."""
    assert not wording.script_holds_secret(script)


def test_what_a_failing_program_prints_has_no_secret() -> None:
    """The end and the cause of it go into errors, the journal and reports; other words stay."""
    said = f'connecting with token {_SECRET}\nFATAL:  password authentication failed for user "x"'
    completed = Completed(argv=("hook",), exit_status=1, stdout="", stderr=f"{said}\n")
    assert completed.tail() == said.replace(_SECRET, "***")
    failed = Completed(argv=("x",), exit_status=1, stdout="", stderr=f"ERROR:  password={_SECRET}")
    assert failed.cause() == "ERROR:  password=***"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("primary_conninfo", "host=other user=repl"),
        ("archive_command", f"curl -u a:{_SECRET} -T %p http://x"),
        ("ssl_passphrase_command", f"tool --token={_SECRET}"),
        ("tls-key-file-pass", _SECRET),
        ("my.secret", _SECRET),
    ],
)
def test_no_secret_is_kept_to_be_put_back(name: str, value: str) -> None:
    """What a setting was goes into the record and the registry, so it is refused before."""
    ordinary = SavedSetting(name="archive_command", value="cp %p /srv/archive/%f")
    assert without_secrets([ordinary]) == (ordinary,)
    with pytest.raises(PreflightError, match="would go into the record"):
        without_secrets([ordinary, SavedSetting(name=name, value=value)])
