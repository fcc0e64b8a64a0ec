"""What a person or a user's command does when a treatment comes into force."""

from dataclasses import dataclass

from steelyard.core.command import Command
from steelyard.core.errors import MeasurementError, PreflightError, TargetError
from steelyard.core.experiment import ManualStep
from steelyard.core.units import format_duration
from steelyard.gateways.process import Operator, Processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Does manual steps."""

    processes: Processes
    operator: Operator

    def require(self, treatment: str, step: ManualStep) -> None:
        """Check that there is somebody to do a step.

        Raises:
            PreflightError: An operator is asked for and there is no terminal.
        """
        if not step.command and not self.operator.is_there:
            raise PreflightError(
                f"`manual` of `{treatment}` asks the operator, and there is no terminal",
                hint="Start it from a terminal, or give it a `command`.",
            )

    def do(self, treatment: str, step: ManualStep) -> None:
        """Do a step and return when it is done.

        Raises:
            TargetError: The command failed, or nobody confirmed in time.
        """
        if step.command:
            self._run(treatment, step)
        elif not self.operator.confirms(f"{treatment}: {step.text}", timeout_s=step.timeout_s):
            raise TargetError(
                f"nobody confirmed within {format_duration(step.timeout_s)} that this was done for"
                f" `{treatment}`: {step.text}",
                hint="Give `manual` a longer `timeout`, or a `command`.",
            )

    def _run(self, treatment: str, step: ManualStep) -> None:
        command = Command(argv=step.command, environment={"STEELYARD_TREATMENT": treatment})
        try:
            completed = self.processes.run(command, timeout_s=step.timeout_s)
        except MeasurementError as error:
            raise TargetError(
                f"the command of `manual` of `{treatment}` failed: {error.message}",
                hint="Give it a longer `timeout`, or look at what it waits for.",
            ) from error
        if not completed.succeeded:
            raise TargetError(
                f"the command of `manual` of `{treatment}` exited with {completed.exit_status}:"
                f" {completed.tail(2)}",
                hint="Try it by hand, with STEELYARD_TREATMENT set to the treatment's name.",
            )
