//! What was found in a capture, as JSON.

use std::collections::BTreeMap;

use engine::ChecksumSample;
use engine::report::TimeRanBack;
use schemars::JsonSchema;
use serde::Serialize;
use traffic::Profile;

/// The JSON of `paceline inspect --json`. Documented by `docs/inspect.schema.json`; fields are added,
/// never renamed or removed.
#[derive(Serialize, JsonSchema)]
pub struct Inspection {
    /// Version of Paceline.
    pub paceline: String,
    #[serde(flatten)]
    pub profile: Profile,
    /// What is odd about the capture, in sentences.
    pub oddities: Vec<String>,
    /// Packets that were skipped since their link type is not supported, by its name.
    pub skipped: BTreeMap<String, u64>,
    /// Packets whose own time lay before an earlier packet's.
    pub time_ran_back: TimeRanBack,
    /// The checksums of all packets, and whether `checksums = "auto"` would verify them; which goes by the first
    /// 4,096, of a pipe the first 64.
    pub checksums: ChecksumSample,
    /// Fragments that a chain with `fragments = "track"` would find malformed, by reason, beside those that are malformed
    /// in any chain. Reasons that did not occur are left out.
    pub fragments: BTreeMap<String, u64>,
    /// Whether the whole capture was read; if not, all else is about the whole packets before the damage.
    pub complete: bool,
    /// Why it was not, if so.
    pub error: Option<String>,
}
