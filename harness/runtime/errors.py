"""Every error that the runtime raises on purpose.

SherpaError
└── RuntimeFault             base of the runtime
    ├── PlanError            a problem or a plan is malformed
    │   ├── ExpressionError      an expression or template cannot be compiled or evaluated
    │   └── PlanAuthoringError   a planner gave no usable plan
    │       └── NoPlanTemplate       a library has nothing for this goal
    ├── AuthorityError       not granted (also a PermissionError)
    │   └── EscapeError          a path that is not what it seems: link, special file, swapped root
    ├── CapabilityError      a capability failed
    │   ├── CapabilityContractError  its inputs or outputs do not fit its schema
    │   ├── UnknownCapability    not registered
    │   └── PatchError           a diff does not apply
    ├── RunStoreError        the event log or the blobs cannot be used
    │   ├── UnknownRunError      no such run
    │   ├── BlobMissing          no such blob (also a KeyError)
    │   ├── BlobCorrupt          a blob is not what its name says
    │   └── LeaseLost            another worker has taken over
    ├── ReviewError          a review was set up wrongly
    │   └── SeparationOfDutyError    the author would review itself
    └── ChannelError         a model cannot be reached
        ├── ChannelRequired      no channel was configured
        ├── ProviderUnavailable  no live provider is usable
        ├── RecordingExhausted   a tape has no entry left
        └── RecordingMismatch    the next entry belongs to another request
"""

from __future__ import annotations

from sherpa.errors import SherpaError


class RuntimeFault(SherpaError):
    """Base of the runtime's errors."""

    code = "runtime_failed"


class PlanError(RuntimeFault):
    """A problem or a plan is malformed."""

    code = "invalid_plan"


class ExpressionError(PlanError):
    """An expression or template cannot be compiled or evaluated; the cause is chained."""


class PlanAuthoringError(PlanError):
    """A planner gave no usable plan."""


class NoPlanTemplate(PlanAuthoringError):
    """A plan library has nothing for this goal."""


class AuthorityError(RuntimeFault, PermissionError):
    """Something was asked for that is not granted."""

    code = "not_granted"


class EscapeError(AuthorityError):
    """A path is not what it seems: a link, a special file, a root that was exchanged."""


class CapabilityError(RuntimeFault):
    """A capability failed."""


class CapabilityContractError(CapabilityError):
    """Inputs or outputs of a capability do not fit its schema."""


class UnknownCapability(CapabilityError):
    """No capability of this name is registered."""


class PatchError(CapabilityError):
    """A diff is malformed or does not fit the files."""


class RunStoreError(RuntimeFault):
    """The event log or the blobs cannot be used."""


class UnknownRunError(RunStoreError):
    """There is no such run."""

    code = "not_found"


class BlobMissing(RunStoreError, KeyError):
    """There is no such blob."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


class BlobCorrupt(RunStoreError):
    """The bytes of a blob do not have the hash that names them."""


class LeaseLost(RunStoreError):
    """Another worker holds the lease that this one was working under."""


class ReviewError(RuntimeFault):
    """A review was set up wrongly."""


class SeparationOfDutyError(ReviewError):
    """An author cannot be its own reviewer."""


class ChannelError(RuntimeFault):
    """A model cannot be reached."""

    code = "channel_unavailable"


class ChannelRequired(ChannelError):
    """A model is needed and no channel was configured."""


class ProviderUnavailable(ChannelError):
    """No live provider is usable."""


class RecordingExhausted(ChannelError):
    """A tape has no entry left for this session."""


class RecordingMismatch(ChannelError):
    """The next entry of a tape belongs to another request."""
