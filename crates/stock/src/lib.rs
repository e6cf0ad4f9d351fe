//! The registry of the stock functions: the only place that compiles them for the engine.
//!
//! Half of the time that the engine and its functions take to compile is spent here, and only when a function or the data
//! path changes: `engine` knows the contract alone.

use engine::Registry;
use nf::NetworkFunction;

/// A registry of the functions of [`nfs`], in the order of their names.
///
/// ```
/// let names: Vec<&str> = paceline_stock::registry().functions().map(|info| info.about.name).collect();
/// assert!(names.contains(&"conntrack"));
/// ```
pub fn registry() -> Registry {
    let mut all = All(Registry::default());
    nfs::for_each(&mut all);
    all.0
}

struct All(Registry);

impl nfs::Visitor for All {
    fn visit<F: NetworkFunction>(&mut self) {
        self.0.add::<F>();
    }

    fn visit_either<A, B>(&mut self, is_b: fn(&A::Options) -> bool)
    where
        A: NetworkFunction,
        B: NetworkFunction<Options = A::Options>,
    {
        self.0.add_either::<A, B>(is_b);
    }
}
