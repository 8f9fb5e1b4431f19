"""What acts in an episode. `endpoint.py` and `fake_endpoint.py` are imported by those who need them."""

from quintain.agents.base import AgentLimits, Observation, ReportingAgent
from quintain.agents.chat import ChatAgent
from quintain.agents.convention import TextConventionAgent
from quintain.agents.external import ExternalAgent
from quintain.agents.noisy import ErrorRates, NoisyAgent
from quintain.agents.patience import PatientCompleter, Retries
from quintain.agents.random_calls import RandomAgent
from quintain.agents.reference import ReferenceAgent

__all__ = [
    "AgentLimits",
    "ChatAgent",
    "ErrorRates",
    "ExternalAgent",
    "NoisyAgent",
    "Observation",
    "PatientCompleter",
    "RandomAgent",
    "ReferenceAgent",
    "ReportingAgent",
    "Retries",
    "TextConventionAgent",
]
