//! What a sweep found, in a sentence: which model does most, and between which settings one model differs.

use super::charts::{values, varies};
use super::rows::Row;
use super::settings::{Axis, Load};
use crate::output::{count, percent, plural};

/// Shares of a rate that are one for people.
const ALIKE: f64 = 0.005;

/// What a sweep found, in a sentence.
pub fn headline(rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().collect();
    let found = of_figures(&rows).or_else(|| finding(&rows));
    found.unwrap_or_else(|| "Pipelines, cycle by cycle: nothing was found".to_owned())
}

/// What rows of one grid or figure show; nothing where nothing was found.
pub fn finding(rows: &[&Row]) -> Option<String> {
    let found = judged(rows);
    let models = values(&found, Axis::Model);
    match models.as_slice() {
        [] => None,
        [model] => Some(of_one(model, &found)),
        models => Some(Contest::of(models, &found).text(&found)),
    }
}

/// In how many figures each model does most. Nothing where rows are of one grid, or of one figure.
fn of_figures(rows: &[&Row]) -> Option<String> {
    let mut figures: Vec<&str> = rows.iter().filter_map(|row| row.figure).collect();
    figures.dedup();
    if figures.len() < 2 {
        return None;
    }
    let (mut firsts, mut others) = (Vec::<(String, u64)>::new(), 0);
    for figure in &figures {
        let of_it: Vec<&Row> = rows.iter().copied().filter(|row| row.figure == Some(figure)).collect();
        let found = judged(&of_it);
        let models = values(&found, Axis::Model);
        let first = (models.len() > 1).then(|| Contest::of(&models, &found).winner()).flatten();
        match first {
            Some(first) => match firsts.iter_mut().find(|(name, _)| *name == first) {
                Some((_, times)) => *times += 1,
                None => firsts.push((first, 1)),
            },
            None => others += 1,
        }
    }
    firsts.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let does = |first| if first { " does most" } else { "" };
    let times = |(at, (name, times)): (usize, &(String, u64))| {
        format!("{name}{} in {}", does(at == 0), count(*times))
    };
    let mut parts: Vec<String> = firsts.iter().enumerate().map(times).collect();
    if others > 0 {
        parts.push(format!("{} compare no models, or find them alike", count(others)));
    }
    Some(format!("{}: {}", plural(figures.len() as u64, "figure"), parts.join(", ")))
}

/// The rows that have a measure, all of them of one kind: of searches, if there are some.
fn judged<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    let is_search = |row: &&Row| matches!(row.settings.load, Load::Highest { .. });
    let has_searches = rows.iter().any(is_search);
    let found = rows.iter().copied().filter(|row| measure(row).is_some());
    found.filter(|row| !has_searches || is_search(row)).collect()
}

/// What a row is judged by: packets per cycle; of a search the highest load, percent.
fn measure(row: &Row) -> Option<f64> {
    match row.settings.load {
        Load::At(_) => row.report.as_ref().map(|report| report.throughput),
        Load::Highest { .. } => Some(f64::from(row.load_percent)),
    }
}

/// Whether rows are of searches.
fn are_searched(rows: &[&Row]) -> bool {
    rows.iter().all(|row| matches!(row.settings.load, Load::Highest { .. }))
}

/// A measure in words.
fn amount(value: f64, searched: bool) -> String {
    match searched {
        true => format!("{value:.0}%"),
        false => format!("{value:.2}"),
    }
}

fn unit(searched: bool) -> &'static str {
    if searched { "of the line's rate within the loss that is allowed" } else { "packets a cycle" }
}

/// What tells rows of one model apart.
fn axes(rows: &[&Row]) -> Vec<Axis> {
    Axis::SET.into_iter().filter(|axis| *axis != Axis::Model && varies(rows, *axis)).collect()
}

/// Where a row is, among those that differ along `axes`.
fn place(row: &Row, axes: &[Axis]) -> String {
    let of_model = axes.iter().filter(|axis| axis.is_of(row.settings.model));
    of_model.map(|axis| axis.named_value(&row.settings)).collect::<Vec<_>>().join(", ")
}

fn of_one(model: &str, rows: &[&Row]) -> String {
    let searched = are_searched(rows);
    let by_measure = |a: &&&Row, b: &&&Row| measure(a).unwrap_or(0.0).total_cmp(&measure(b).unwrap_or(0.0));
    let (Some(least), Some(most)) = (rows.iter().min_by(by_measure), rows.iter().max_by(by_measure)) else {
        return String::new();
    };
    let of = |row: &Row| measure(row).unwrap_or(0.0);
    let (unit, axes) = (unit(searched), axes(rows));
    if of(most) - of(least) <= ALIKE * of(most) {
        let lost =
            rows.iter().filter_map(|row| row.report.as_ref()).map(|report| report.loss()).fold(0.0, f64::max);
        let lost = if lost > 0.0 { format!(", and loses up to {}", percent(lost)) } else { String::new() };
        let over = if rows.len() > 1 { format!(" over {}", settings(rows.len())) } else { String::new() };
        return format!("{model} does {} {unit}{over}{lost}", amount(of(most), searched));
    }
    format!(
        "{model} does {} to {} {unit} over {}: least at {}, most at {}",
        amount(of(least), searched),
        amount(of(most), searched),
        settings(rows.len()),
        place(least, &axes),
        place(most, &axes),
    )
}

fn settings(number: usize) -> String {
    plural(number as u64, "setting")
}

/// Models where all have been.
struct Contest<'m> {
    models: &'m [String],
    /// What tells settings apart that all models have.
    common: Vec<Axis>,
    /// Settings by their values along these axes, with each model's measure.
    places: Vec<(Vec<String>, Vec<f64>)>,
}

impl<'m> Contest<'m> {
    fn of(models: &'m [String], rows: &[&Row]) -> Contest<'m> {
        let axes = axes(rows);
        // A model has no part in what varies along an axis that makes no difference to it.
        let common: Vec<Axis> =
            axes.into_iter().filter(|axis| models.iter().all(|model| axis.is_of(model))).collect();
        let mut keys: Vec<Vec<String>> = rows.iter().map(|row| key(row, &common)).collect();
        keys.sort_unstable();
        keys.dedup();
        // Of what varies for one model alone, its best counts.
        let best = |model: &str, wanted: &[String]| {
            let of_it = rows.iter().filter(|row| row.settings.model == model && key(row, &common) == wanted);
            of_it.filter_map(|row| measure(row)).max_by(f64::total_cmp)
        };
        let all = |key: &[String]| models.iter().map(|model| best(model, key)).collect::<Option<Vec<f64>>>();
        let places = keys.into_iter().filter_map(|key| all(&key).map(|all| (key, all))).collect();
        Contest { models, common, places }
    }

    /// Mean and model, the greatest mean first. Empty where models have no setting in common.
    fn means(&self) -> Vec<(f64, usize)> {
        if self.places.is_empty() {
            return Vec::new();
        }
        let mean = |model: usize| {
            self.places.iter().map(|(_, all)| all[model]).sum::<f64>() / self.places.len() as f64
        };
        let mut means: Vec<_> = (0..self.models.len()).map(|model| (mean(model), model)).collect();
        means.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        means
    }

    /// The model that does more than all others.
    fn winner(&self) -> Option<String> {
        let means = self.means();
        let (&(most, first), &(less, _)) = (means.first()?, means.get(1)?);
        (most - less > ALIKE * most).then(|| self.models[first].clone())
    }

    /// The best model beside the second.
    fn text(&self, rows: &[&Row]) -> String {
        let Contest { models, common, places } = self;
        let means = self.means();
        let (Some(&(most, first)), Some(&(less, second))) = (means.first(), means.get(1)) else {
            return format!("{} have no setting in common", models.join(", "));
        };
        let searched = are_searched(rows);
        let (unit, over) = (unit(searched), settings(places.len()));
        let is_mean = if places.len() > 1 { ", on average" } else { "" };
        let (name, other) = (&models[first], &models[second]);
        let (much, little) = (amount(most, searched), amount(less, searched));
        if most - less <= ALIKE * most {
            return format!("{name} and {other} do alike, {much} {unit}{is_mean} over {over}");
        }
        let times = match less {
            0.0 => format!("more than {other}"),
            less => format!("{:.1} times what {other} does", most / less),
        };
        let mut text = format!("{name} does {times}: {much} {unit} against {little}{is_mean} over {over}");
        let gap = |place: &&(Vec<String>, Vec<f64>)| place.1[first] - place.1[second];
        let widest = places.iter().max_by(|a, b| gap(a).total_cmp(&gap(b))).filter(|_| places.len() > 1);
        let row = widest.and_then(|(wanted, _)| rows.iter().find(|row| key(row, common) == *wanted));
        if let (Some((_, all)), Some(row)) = (widest, row) {
            let (one, two) = (amount(all[first], searched), amount(all[second], searched));
            text += &format!("; most at {}: {one} against {two}", place(row, common));
        }
        let behind = places.iter().filter(|(_, all)| all[second] > all[first] * (1.0 + ALIKE)).count();
        if behind > 0 {
            text += &format!("; {other} does more at {}", count(behind as u64));
        }
        text
    }
}

/// A row's values along axes.
fn key(row: &Row, axes: &[Axis]) -> Vec<String> {
    axes.iter().map(|axis| axis.value(&row.settings)).collect()
}
