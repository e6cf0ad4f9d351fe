"""What calls raise, and warn of."""


class Error(Exception):
    """A call that has no result. Its text is what the program prints, with the place of the mistake and what to do.

    Attributes:
        message: What is wrong, in one sentence.
        place: Where, as `FILE:LINE:COLUMN`, of a mistake in a chain file; else None.
        help: What to do; None where nothing is known.
        code: What `paceline explain` says more of, such as `chain-file`; None where there is no more.
        status: The exit status that the program would have had: 2 for wrong input, 101 for a defect of Paceline.
    """

    def __init__(
        self, text: str, message: str, place: str | None, help: str | None, status: int, code: str | None = None
    ) -> None:
        super().__init__(text)
        self.message = message
        self.place = place
        self.help = help
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str | None, str | None, int, str | None]]:
        return Error, (str(self), self.message, self.place, self.help, self.status, self.code)


class IncompleteWarning(UserWarning):
    """A capture is cut short or damaged. What a call returns is of the whole packets before that."""
