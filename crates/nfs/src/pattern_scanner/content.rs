//! What a pattern's content means: text, with bytes in hex between bars, as in Snort's rules.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The letters before which a backslash is only a mark that they mean themselves.
const ESCAPED: [char; 5] = ['|', '\\', '"', ';', ':'];

/// The bytes that `content` stands for, or what is wrong with it.
pub(super) fn parse(content: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(content.len());
    let mut letters = content.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '|' => {
                let rest = letters.as_str();
                let (hex, after) = rest.split_once('|').ok_or("has a `|` without a second one behind it")?;
                push_hex(&mut bytes, hex)?;
                letters = after.chars();
                continue;
            }
            '\\' => match letters.next() {
                Some(escaped) if ESCAPED.contains(&escaped) => escaped,
                _ => return Err("has a `\\` before none of `| \\ \" ; :`; write `\\\\` for itself".into()),
            },
            letter => letter,
        };
        bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(bytes)
}

/// Bytes of two digits each, with spaces between or not: `90 90`, `0d0a`.
fn push_hex(bytes: &mut Vec<u8>, hex: &str) -> Result<(), String> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .filter(|letter| *letter != ' ')
        .map(|letter| letter.to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if !digits.is_empty() && digits.len().is_multiple_of(2) => {
            bytes.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
            Ok(())
        }
        _ => Err(format!("has `|{hex}|`; write bytes of two hex digits each, such as `|0d 0a|`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn text_and_hex_stand_side_by_side() {
        for (content, bytes) in [
            ("GET /", &b"GET /"[..]),
            ("|90 90|", b"\x90\x90"),
            ("|9090fF|", b"\x90\x90\xff"),
            ("| 9 0 |", b"\x90"),
            ("a|0d 0A|b|00|", b"a\r\nb\0"),
            ("\\|00\\|", b"|00|"),
            ("\\\\ \\\" \\; \\: ; : \"", b"\\ \" ; : ; : \""),
            ("\u{fc}", "\u{fc}".as_bytes()),
            ("", b""),
        ] {
            assert_eq!(parse(content).as_deref(), Ok(bytes), "{content}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (content, expected) in [
            ("a|00", "has a `|` without a second one behind it"),
            ("||", "has `||`; write bytes of two hex digits each, such as `|0d 0a|`"),
            ("|0|", "has `|0|`; write bytes of two hex digits each, such as `|0d 0a|`"),
            ("|0g|", "has `|0g|`; write bytes of two hex digits each, such as `|0d 0a|`"),
            ("\\n", "has a `\\` before none of `| \\ \" ; :`; write `\\\\` for itself"),
            ("a\\", "has a `\\` before none of `| \\ \" ; :`; write `\\\\` for itself"),
        ] {
            assert_eq!(parse(content), Err(expected.to_string()), "{content}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_written(bytes: Vec<u8>, from in 0_usize..40) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
            let written = if bytes.is_empty() { String::new() } else { format!("|{hex}|") };
            prop_assert_eq!(parse(&written), Ok(bytes.clone()));
            // Nothing panics, whatever it is.
            let text = String::from_utf8_lossy(&bytes);
            let _ = parse(&text);
            let _ = parse(&text.chars().skip(from).collect::<String>());
        }
    }
}
