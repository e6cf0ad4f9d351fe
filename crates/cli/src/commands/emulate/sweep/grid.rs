//! All settings of a sweep: the product of what each axis takes.

use pipeline::{BlockingOptions, Consistency, Model, RapidOptions};

use super::super::values::Level;
use super::settings::{Load, Settings};
use super::traffic::Traffic;

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
        let sizes = [
            self.models.len(),
            self.traffic.len(),
            self.packets.len(),
            self.packet_bytes.len(),
            self.seeds.len(),
            self.update_percents.len(),
            self.stages.len(),
            self.stage_cycles.len().max(1),
            self.consistency.len(),
            self.loads.len(),
            self.resubmitted_buffers.len(),
            self.phv_buffers.len(),
            self.dirty_tables.len(),
            self.block_queues.len(),
            self.suspend_queues.len(),
            self.schedule_queues.len(),
            self.ring_buffers.len(),
            self.rings_from_pipeline.len(),
            self.rings_from_ring.len(),
            self.blocking_thresholds.len(),
            self.queues.len(),
            self.queue_depths.len().max(1),
        ];
        sizes.into_iter().fold(1, usize::saturating_mul)
    }

    /// All places; what comes last varies fastest.
    pub fn points(&self) -> Vec<Settings> {
        let mut points = vec![self.first()];
        vary(&mut points, &self.packet_bytes, |point, bytes| point.packet_bytes = bytes);
        vary(&mut points, &self.traffic, |point, traffic| point.traffic = traffic);
        vary(&mut points, &self.packets, |point, packets| point.packets = packets);
        vary(&mut points, &self.seeds, |point, seed| point.seed = seed);
        vary(&mut points, &self.models, take_model);
        vary(&mut points, &self.stages, |point, stages| point.stages = stages);
        vary(&mut points, &self.stage_cycles, |point, cycles| point.stage_cycles = cycles);
        vary(&mut points, &self.update_percents, |point, percent| point.update_percent = percent);
        vary(&mut points, &self.consistency, |point, level| point.consistency = level);
        vary(&mut points, &self.loads, |point, load| point.load = load);
        vary(&mut points, &self.resubmitted_buffers, |point, packets| point.resubmitted_buffer = packets);
        vary(&mut points, &self.phv_buffers, |point, packets| point.phv_buffer = packets);
        vary(&mut points, &self.dirty_tables, |point, flows| point.dirty_table = flows);
        vary(&mut points, &self.block_queues, |point, flows| point.block_queue = flows);
        vary(&mut points, &self.suspend_queues, |point, flows| point.suspend_queue = flows);
        vary(&mut points, &self.schedule_queues, |point, flows| point.schedule_queue = flows);
        vary(&mut points, &self.ring_buffers, |point, packets| point.ring_buffer = packets);
        vary(&mut points, &self.rings_from_pipeline, |point, packets| point.ring_from_pipeline = packets);
        vary(&mut points, &self.rings_from_ring, |point, packets| point.ring_from_ring = packets);
        vary(&mut points, &self.blocking_thresholds, |point, most| point.blocking_threshold = most);
        vary(&mut points, &self.queues, |point, queues| point.queues = queues);
        vary(&mut points, &self.queue_depths, |point, depth| point.queue_depth = depth);
        points
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

/// Each place becomes as many as there are values; without any it stays.
fn vary<T: Clone>(points: &mut Vec<Settings>, values: &[T], set: impl Fn(&mut Settings, T)) {
    if values.is_empty() {
        return;
    }
    let of = |point: Settings| {
        let with = |value: &T| {
            let mut point = point.clone();
            set(&mut point, value.clone());
            point
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    *points = std::mem::take(points).into_iter().flat_map(of).collect();
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
