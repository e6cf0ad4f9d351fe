//! All settings of a sweep: the product of what each axis takes.

use pipeline::{BlockingOptions, Consistency, Model, RapidOptions};

use super::settings::{Load, Settings};
use super::traffic::Traffic;
use crate::args::buffers::Level;

/// What each axis takes.
#[derive(Clone, Debug)]
pub struct Grid {
    pub models: Vec<&'static str>,
    pub traffic: Vec<Traffic>,
    pub packets: Vec<Option<u64>>,
    pub packet_bytes: Vec<Option<u32>>,
    pub seeds: Vec<u64>,
    pub update_percents: Vec<u32>,
    pub stages: Vec<usize>,
    /// As long as each model's own, where it is empty.
    pub stage_cycles: Vec<usize>,
    pub consistency: Vec<Level>,
    pub loads: Vec<Load>,
    pub resubmitted_buffers: Vec<usize>,
    pub phv_buffers: Vec<usize>,
    pub dirty_tables: Vec<usize>,
    pub block_queues: Vec<Option<usize>>,
    pub suspend_queues: Vec<Option<usize>>,
    pub schedule_queues: Vec<Option<usize>>,
    pub ring_buffers: Vec<usize>,
    pub rings_from_pipeline: Vec<Option<usize>>,
    pub rings_from_ring: Vec<Option<usize>>,
    pub blocking_thresholds: Vec<Option<u32>>,
    pub queues: Vec<usize>,
    /// As deep as each model's own, where it is empty.
    pub queue_depths: Vec<usize>,
    pub lossless: bool,
}

impl Default for Grid {
    fn default() -> Grid {
        let rapid = RapidOptions::default();
        Grid {
            models: vec!["rapid", "blocking"],
            traffic: vec![Traffic::Spaced(2)],
            packets: vec![None],
            packet_bytes: vec![None],
            seeds: vec![1],
            update_percents: vec![30],
            stages: vec![2, 3, 4],
            stage_cycles: Vec::new(),
            consistency: vec![Level(Consistency::Strict)],
            loads: vec![Load::At(100)],
            resubmitted_buffers: vec![rapid.resubmitted_buffer],
            phv_buffers: vec![rapid.phv_buffer],
            dirty_tables: vec![rapid.dirty_table],
            block_queues: vec![None],
            suspend_queues: vec![None],
            schedule_queues: vec![None],
            ring_buffers: vec![rapid.ring_from_ring],
            rings_from_pipeline: vec![None],
            rings_from_ring: vec![None],
            blocking_thresholds: vec![rapid.blocking_threshold],
            queues: vec![BlockingOptions::BLOCKING.queues],
            queue_depths: Vec::new(),
            lossless: false,
        }
    }
}

impl Grid {
    /// How many places there are; huge for one that is too large to count.
    pub fn len(&self) -> usize {
        self.axes().iter().map(|(many, _)| *many.max(&1)).fold(1, usize::saturating_mul)
    }

    /// All places; what comes last varies fastest.
    pub fn points(&self) -> Vec<Settings> {
        let mut points = vec![self.first()];
        for (many, set) in self.axes().iter().filter(|(many, _)| *many > 0) {
            let with = |point: &Settings, at: usize| {
                let mut point = point.clone();
                set(&mut point, at);
                point
            };
            points = points.iter().flat_map(|point| (0..*many).map(|at| with(point, at))).collect();
        }
        points
    }

    /// How many values each axis takes, and what sets one by its number. Without any, places have that of the model.
    fn axes(&self) -> [AxisValues<'_>; 22] {
        [
            axis(&self.packet_bytes, |point, bytes| point.packet_bytes = bytes),
            axis(&self.traffic, |point, traffic| point.traffic = traffic),
            axis(&self.packets, |point, packets| point.packets = packets),
            axis(&self.seeds, |point, seed| point.seed = seed),
            axis(&self.models, take_model),
            axis(&self.stages, |point, stages| point.stages = stages),
            axis(&self.stage_cycles, |point, cycles| point.stage_cycles = cycles),
            axis(&self.update_percents, |point, percent| point.update_percent = percent),
            axis(&self.consistency, |point, level| point.consistency = level),
            axis(&self.loads, |point, load| point.load = load),
            axis(&self.resubmitted_buffers, |point, packets| point.resubmitted_buffer = packets),
            axis(&self.phv_buffers, |point, packets| point.phv_buffer = packets),
            axis(&self.dirty_tables, |point, flows| point.dirty_table = flows),
            axis(&self.block_queues, |point, flows| point.block_queue = flows),
            axis(&self.suspend_queues, |point, flows| point.suspend_queue = flows),
            axis(&self.schedule_queues, |point, flows| point.schedule_queue = flows),
            axis(&self.ring_buffers, |point, packets| point.ring_buffer = packets),
            axis(&self.rings_from_pipeline, |point, packets| point.ring_from_pipeline = packets),
            axis(&self.rings_from_ring, |point, packets| point.ring_from_ring = packets),
            axis(&self.blocking_thresholds, |point, most| point.blocking_threshold = most),
            axis(&self.queues, |point, queues| point.queues = queues),
            axis(&self.queue_depths, |point, depth| point.queue_depth = depth),
        ]
    }

    /// What every place has, before anything varies.
    fn first(&self) -> Settings {
        let (rapid, blocking) = (RapidOptions::default(), BlockingOptions::BLOCKING);
        let mut first = Settings {
            model: "rapid",
            traffic: Traffic::Spaced(2),
            packets: None,
            packet_bytes: None,
            seed: 1,
            update_percent: 0,
            stages: 1,
            stage_cycles: 1,
            consistency: Level(Consistency::Strict),
            load: Load::At(100),
            resubmitted_buffer: rapid.resubmitted_buffer,
            phv_buffer: rapid.phv_buffer,
            dirty_table: rapid.dirty_table,
            block_queue: None,
            suspend_queue: None,
            schedule_queue: None,
            ring_buffer: rapid.ring_from_ring,
            ring_from_pipeline: None,
            ring_from_ring: None,
            blocking_threshold: rapid.blocking_threshold,
            queues: blocking.queues,
            queue_depth: blocking.depth,
            lossless: self.lossless,
        };
        take_model(&mut first, "rapid");
        first
    }
}

/// A model comes with its own length of stages and depth of queues.
fn take_model(point: &mut Settings, name: &'static str) {
    point.model = name;
    let Some(model) = Model::named(name) else { return };
    point.stage_cycles = model.stage_cycles();
    point.queue_depth = match model {
        Model::FlowBlaze(options) | Model::Blocking(options) => options.depth,
        _ => BlockingOptions::BLOCKING.depth,
    };
}

type AxisValues<'a> = (usize, Box<dyn Fn(&mut Settings, usize) + 'a>);

fn axis<T: Clone>(values: &[T], set: fn(&mut Settings, T)) -> AxisValues<'_> {
    (values.len(), Box::new(move |point, at| set(point, values[at].clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_the_product_of_its_axes() {
        let grid = Grid {
            update_percents: vec![10, 30, 50],
            traffic: vec![Traffic::Spaced(1), Traffic::Turns(4)],
            queue_depths: vec![8, 16],
            ..Grid::default()
        };
        let points = grid.points();
        assert_eq!((points.len(), grid.len()), (2 * 3 * 3 * 2 * 2, points.len()));
        let mut different: Vec<String> = points.iter().map(|point| format!("{point:?}")).collect();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), points.len());
        assert_eq!((points[0].queue_depth, points[1].queue_depth), (8, 16), "the last axis varies fastest");
    }

    #[test]
    fn models_bring_what_their_prototypes_have() {
        let grid = Grid { models: vec!["pisa", "flowblaze", "blocking"], stages: vec![1], ..Grid::default() };
        let own: Vec<_> = grid.points().iter().map(|point| (point.stage_cycles, point.queue_depth)).collect();
        assert_eq!(own, [(16, 32), (21, 64), (18, 32)]);
        let grid = Grid { stage_cycles: vec![9], queue_depths: vec![7], ..grid };
        assert!(grid.points().iter().all(|point| (point.stage_cycles, point.queue_depth) == (9, 7)));
    }

    #[test]
    fn what_a_model_does_not_have_makes_no_difference() {
        let grid = Grid {
            stages: vec![2],
            consistency: vec![Level(Consistency::Strict), Level(Consistency::Weak)],
            phv_buffers: vec![8, 16],
            queue_depths: vec![16, 32],
            ..Grid::default()
        };
        let effective = |model: &str| {
            let points = grid.points();
            let mut keys: Vec<_> = points
                .iter()
                .filter(|point| point.model == model)
                .map(|point| format!("{:?}", point.effective()))
                .collect();
            keys.dedup();
            keys.sort();
            keys.dedup();
            keys.len()
        };
        assert_eq!((effective("rapid"), effective("blocking")), (4, 2));
    }
}
