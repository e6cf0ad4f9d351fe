//! A model in one line of text: `zipf:flows=100000,a=1.1,packets=1000000,seed=1`.

use std::fmt;
use std::str::FromStr;

use super::options::wrong;
use super::{Kind, Model, ModelError, Options};

/// Options of all models; those of connections have one more, those of a single flow one less.
const COMMON: [&str; 7] = ["packets", "flows", "seed", "sizes", "gap-ns", "burst", "ipv6-share"];

impl Model {
    /// Reads a model: its name, and after a colon options with their values, separated by commas. What is not
    /// there has its default.
    ///
    /// # Errors
    /// [`ModelError`] says what is wrong and what there is.
    pub fn parse(text: &str) -> Result<Model, ModelError> {
        Model::parse_with(text, &[])
    }

    /// Parses a model with further options, which a program may have from elsewhere.
    ///
    /// # Errors
    /// As [`Model::parse`]; an option that is in both is given twice.
    pub fn parse_with(text: &str, more: &[(&str, &str)]) -> Result<Model, ModelError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut kind = Kind::named(name).ok_or_else(|| ModelError::UnknownModel {
            name: name.to_owned(),
            known: Kind::NAMES.join(", "),
        })?;
        let parts = settings.split(',').filter(|_| text.contains(':'));
        let setting =
            |part| str::split_once(part, '=').ok_or_else(|| ModelError::NoValue { text: part.to_owned() });
        let mut settings: Vec<(&str, &str)> = parts.map(setting).collect::<Result<_, _>>()?;
        settings.extend(more);
        let mut options = Options::of(kind);
        for (index, (option, value)) in settings.iter().enumerate() {
            if settings[..index].iter().any(|(before, _)| before == option) {
                return Err(ModelError::Twice { option: (*option).to_owned() });
            }
            set(&mut kind, &mut options, option, value)?;
        }
        if !settings.iter().any(|(option, _)| *option == "sizes") {
            options.fit_default_sizes(kind);
        }
        Model::new(kind, options)
    }

    /// Options with their values, all of them.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let Options { packets, flows, seed, sizes, gap_ns, burst, ipv6_share, concurrent } = &self.options;
        let mut settings = vec![("packets", packets.to_string())];
        settings.extend(flows.map(|flows| ("flows", flows.to_string())));
        match self.kind {
            Kind::Zipf { exponent } => settings.push(("a", exponent.to_string())),
            Kind::Elephant { share } => settings.push(("share", share.to_string())),
            Kind::SingleFlow { one_way } => settings.push(("one-way", one_way.to_string())),
            Kind::SynFlood { legit, sources } => {
                settings.push(("legit", legit.to_string()));
                settings.extend(sources.map(|sources| ("sources", sources.to_string())));
            }
            Kind::PortScan { share, scanners } => {
                settings.extend([("share", share.to_string()), ("scanners", scanners.to_string())]);
            }
            Kind::Uniform | Kind::Datacenter | Kind::Backbone | Kind::University => {}
        }
        settings.extend(concurrent.map(|concurrent| ("concurrent", concurrent.to_string())));
        settings.extend([
            ("seed", seed.to_string()),
            ("sizes", sizes.to_string()),
            ("gap-ns", gap_ns.to_string()),
            ("burst", burst.to_string()),
            ("ipv6-share", ipv6_share.to_string()),
        ]);
        settings
    }
}

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Model, ModelError> {
        Model::parse(text)
    }
}

/// All there is to say, also what is a default: the same bytes whatever later defaults are.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings();
        let settings: Vec<_> = settings.iter().map(|(option, value)| format!("{option}={value}")).collect();
        write!(f, "{}:{}", self.kind.name(), settings.join(","))
    }
}

impl Kind {
    /// The options that a model has.
    pub fn option_names(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Kind::Zipf { .. } => &["a"],
            Kind::Elephant { .. } => &["share"],
            Kind::SingleFlow { .. } => &["one-way"],
            Kind::SynFlood { .. } => &["legit", "sources", "concurrent"],
            Kind::PortScan { .. } => &["share", "scanners", "concurrent"],
            Kind::Datacenter | Kind::Backbone | Kind::University => &["concurrent"],
            Kind::Uniform => &[],
        };
        let is_single = matches!(self, Kind::SingleFlow { .. });
        let common = COMMON.into_iter().filter(|name| !(is_single && *name == "flows"));
        common.chain(own.iter().copied()).collect()
    }
}

/// Sets one option.
fn set(kind: &mut Kind, options: &mut Options, option: &str, value: &str) -> Result<(), ModelError> {
    let names = kind.option_names();
    let Some(name) = names.iter().copied().find(|name| *name == option) else {
        let (model, known) = (kind.name(), names.join(", "));
        return Err(ModelError::UnknownOption { model, option: option.to_owned(), known });
    };
    match (name, kind) {
        ("packets", _) => options.packets = number(name, value)?,
        ("flows", _) => options.flows = Some(number(name, value)?),
        ("seed", _) => options.seed = number(name, value)?,
        ("sizes", _) => options.sizes = read(name, value)?,
        ("gap-ns", _) => options.gap_ns = number(name, value)?,
        ("burst", _) => options.burst = number(name, value)?,
        ("ipv6-share", _) => options.ipv6_share = read(name, value)?,
        ("concurrent", _) => options.concurrent = Some(number(name, value)?),
        ("a", Kind::Zipf { exponent }) => {
            *exponent = value.parse().map_err(|_| wrong(name, value, "must be 0 to 10".to_owned()))?;
        }
        ("share", Kind::Elephant { share } | Kind::PortScan { share, .. }) => *share = read(name, value)?,
        ("one-way", Kind::SingleFlow { one_way }) => {
            *one_way = value.parse().map_err(|_| wrong(name, value, "must be true or false".to_owned()))?;
        }
        ("legit", Kind::SynFlood { legit, .. }) => *legit = read(name, value)?,
        ("sources", Kind::SynFlood { sources, .. }) => *sources = Some(number(name, value)?),
        ("scanners", Kind::PortScan { scanners, .. }) => *scanners = number(name, value)?,
        (_, kind) => unreachable!("{} has `{name}` among its options", kind.name()),
    }
    Ok(())
}

fn read<T: FromStr<Err = String>>(option: &'static str, value: &str) -> Result<T, ModelError> {
    value.parse().map_err(|needs| wrong(option, value, needs))
}

fn number<T: FromStr>(option: &'static str, value: &str) -> Result<T, ModelError> {
    let is_digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_digits);
    number.ok_or_else(|| {
        wrong(option, value, "must be a whole number, at least 0, that is not too big".to_owned())
    })
}
