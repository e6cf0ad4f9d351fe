//! What a function reports in text: a table after a run, and the values of one flow's state for a trace.

use alloc::string::String;
use alloc::vec::Vec;

/// What a function has to tell after a run, beside the counters: a small table for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionReport {
    /// One line above the table, which says what the rows are of: `Sources blocked now: 3`.
    pub title: String,
    /// Column names, units last: `bytes`, `rate_bytes_per_s`.
    pub columns: Vec<&'static str>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// One value of a flow's state, for a trace: see [`Reports::state`](crate::Reports::state).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateValue {
    /// A number.
    Number(u64),
    /// A time, ns: people are told how long before or after the packet.
    TimeNs(u64),
    /// Anything else.
    Text(String),
}

impl From<&str> for StateValue {
    fn from(text: &str) -> StateValue {
        StateValue::Text(text.into())
    }
}

impl From<String> for StateValue {
    fn from(text: String) -> StateValue {
        StateValue::Text(text)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl From<$number> for StateValue {
            fn from(number: $number) -> StateValue {
                StateValue::Number(number.into())
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_state_holds_is_shown_as_what_it_is() {
        let values: [StateValue; 4] = ["up".into(), String::from("up").into(), 7_u8.into(), 7_u64.into()];
        let (text, number) = (StateValue::Text("up".into()), StateValue::Number(7));
        assert_eq!(values, [text.clone(), text, number.clone(), number]);
    }
}
