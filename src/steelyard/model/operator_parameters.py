"""Settings of PostgreSQL that CloudNativePG keeps to itself.

Source: ``FixedConfigurationParameters`` in pkg/postgres/configuration.go of
cloudnative-pg/cloudnative-pg at b122f632. Earlier releases fixed more: ``huge_pages``,
``wal_level``, ``wal_log_hints``, ``full_page_writes``, ``archive_timeout`` and the names of TLS
versions and ciphers.
"""

from typing import Final

# The webhook refuses a cluster that names one.
REFUSED: Final = frozenset(
    {
        "allow_system_table_mods",
        "archive_cleanup_command",
        "archive_command",
        "archive_mode",
        "bonjour",
        "bonjour_name",
        "cluster_name",
        "config_file",
        "data_directory",
        "data_sync_retry",
        "event_source",
        "external_pid_file",
        "hba_file",
        "hot_standby",
        "ident_file",
        "jit_provider",
        "listen_addresses",
        "log_destination",
        "log_directory",
        "log_file_mode",
        "log_filename",
        "log_rotation_age",
        "log_rotation_size",
        "log_truncate_on_rotation",
        "logging_collector",
        "pg_failover_slots.primary_dsn",
        "pg_failover_slots.standby_slot_names",
        "port",
        "primary_conninfo",
        "primary_slot_name",
        "promote_trigger_file",
        "recovery_end_command",
        "recovery_min_apply_delay",
        "recovery_target",
        "recovery_target_action",
        "recovery_target_inclusive",
        "recovery_target_lsn",
        "recovery_target_name",
        "recovery_target_time",
        "recovery_target_timeline",
        "recovery_target_xid",
        "restart_after_crash",
        "restore_command",
        "shared_preload_libraries",
        "ssl",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_crl_file",
        "ssl_dh_params_file",
        "ssl_ecdh_curve",
        "ssl_key_file",
        "ssl_passphrase_command",
        "ssl_passphrase_command_supports_reload",
        "ssl_prefer_server_ciphers",
        "stats_temp_directory",
        "synchronized_standby_slots",
        "synchronous_standby_names",
        "syslog_facility",
        "syslog_ident",
        "syslog_sequence_numbers",
        "syslog_split_messages",
        "temp_tablespaces",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)
# Taken and then overwritten, from PostgreSQL 17 on: by spec.postgresql.enableAlterSystem.
OVERWRITTEN: Final = frozenset({"allow_alter_system"})
