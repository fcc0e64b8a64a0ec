"""``steelyard presets``: experiments to start from."""

import click


@click.command("presets")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the presets, or print the one called NAME as an experiment file."""
    from steelyard.campaign.file.files import (
        bundle_names,
        load_bundle,
        preset_names,
        preset_summary,
        preset_text,
    )

    if name is not None:
        click.echo(preset_text(name.removeprefix("preset:")), nl=False)
        return
    width = max(map(len, preset_names()))
    for known in preset_names():
        click.echo(f"{known:<{width}}  {preset_summary(known)}")
    click.echo("\nSeveral of them, as a published article has them, and one text of all:")
    for known in bundle_names():
        click.echo(f"{f'article:{known}':<{width}}  {load_bundle(known).title}")
    click.echo("\nPrint one by `steelyard presets NAME`, run it by `steelyard run preset:NAME`.")
