#ifndef _CORE_P4_
#define _CORE_P4_
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
