#ifndef PACELINE_CORE_P4
#define PACELINE_CORE_P4
// What every P4 program knows. packet_in, packet_out, verify and NoAction are the compiler's own.
error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}
match_kind { exact, ternary, lpm }
#endif
