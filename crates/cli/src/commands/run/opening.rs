//! The ports of a run on interfaces: one, behind which cores stand, or one for each core.

use engine::strategies::{Table, TableError};
use engine::{Chain, Plan, guests};
use io::Pool;
use live::xdp::{Spread, Steering};
use live::{Interface, LiveError, LivePort, Mode, PortOptions, Routes, Sockets, SpreadTable};
use strategy::{HashFields, Move, Toeplitz};
use wire::Fields;

use super::options::{Place, PollArg, RunArgs, Way};

/// Frames that packets are received into.
const FRAMES: usize = 8_192;
/// So many times as many where strategies take over from each other: packets wait meanwhile.
const FOR_PAUSES: usize = 4;
/// The most times as many where cores have ports of their own.
const MOST: usize = 4;

/// The ports of a run, and the plan that they are for.
pub struct Opened {
    pub plan: Plan,
    /// One, or one for each core.
    pub ports: Vec<LivePort>,
    /// Pools of cores that have no port.
    pub guests: Vec<Pool>,
    /// Which of the two it is, and why, where there are several cores.
    pub cores: Option<String>,
    /// Follows routes until the run ends.
    _routes: Option<Routes>,
}

/// Opens a port for each core where that is right, and one for all of them elsewhere.
pub fn open(
    args: &RunArgs,
    place: &Place<'_>,
    chain: &Chain,
    plan: Plan,
    interfaces: &[Interface],
    options: PortOptions,
) -> Result<Opened, LiveError> {
    let cores = plan.cores;
    let why = match own(args, chain, &plan, &options) {
        Ok(own) => match open_each(place, chain, &own, interfaces, options.clone()) {
            Ok((ports, routes)) => {
                tell_remarks(&ports);
                let moves = own.rebalancing.map_or("", |_| "; entries of its table move");
                let how = match own.hash_fields {
                    Some(fields) => format!("XDP picks the core by {fields}{moves}"),
                    None => "they take packets in turns, and send as they are ready".to_owned(),
                };
                let line = format!("{cores} cores, each with sockets of its own: {how}");
                return Ok(Opened {
                    plan: own,
                    ports,
                    guests: Vec::new(),
                    cores: Some(line),
                    _routes: routes,
                });
            }
            Err(why) => why,
        },
        Err(why) => why,
    };
    // Where no core can be parked `ctl cores` says why.
    let plan = plan.clone().with_cores_to_park(chain).unwrap_or(plan);
    let frames = if plan.strategy.info().has_others_run { FOR_PAUSES * FRAMES } else { FRAMES };
    let (pool, guests) = Pool::chunks(frames, chunk_bytes(interfaces), guests(&plan));
    let (mut modes, routes) = modes(place, 1)?;
    let port = LivePort::open(interfaces, modes.remove(0), pool, &options)?;
    let ports = vec![port];
    tell_remarks(&ports);
    let line =
        (cores > 1).then(|| format!("{cores} cores, and one thread that receives and sends for them: {why}"));
    Ok(Opened { plan, ports, guests, cores: line, _routes: routes })
}

/// The table by which the XDP programs of ports spread packets, as the engine changes it.
struct Spreading(SpreadTable);

impl Table for Spreading {
    fn give(&mut self, moves: &[Move]) -> Result<(), TableError> {
        let given = self.0.give(moves.iter().map(|moved| (moved.entry, moved.to)));
        given.map_err(|error| TableError(error.to_string()))
    }
}

/// The table in front of ports that cores have of their own.
pub fn table(ports: &[LivePort]) -> Option<Box<dyn Table>> {
    let table = ports.first()?.table()?;
    Some(Box::new(Spreading(table)))
}

fn tell_remarks(ports: &[LivePort]) {
    ports[0].remarks().iter().for_each(|remark| eprintln!("note: {remark}"));
}

fn chunk_bytes(interfaces: &[Interface]) -> usize {
    LivePort::chunk_bytes(interfaces.iter().map(|interface| interface.mtu).max().unwrap_or_default())
}

/// The plan for cores with ports of their own, or why they cannot have any.
fn own(args: &RunArgs, chain: &Chain, plan: &Plan, options: &PortOptions) -> Result<Plan, String> {
    let own = plan.clone().with_own_ports(chain).map_err(|why| why.to_string())?;
    let why = match () {
        () if args.live.front => "--front was given",
        () if args.live.record.is_some() || args.out.is_some() => {
            "--record and --out write packets in the order in which one thread sees them"
        }
        () if options.taps.iter().any(Option::is_some) => "a TAP interface has one queue and no XDP program",
        () if options.sockets == Sockets::Packet => "AF_PACKET has no sockets of each core's own",
        () if matches!(args.live.poll, PollArg::Driver) => {
            "--poll driver has one thread do the driver's work"
        }
        () => return Ok(own),
    };
    Err(why.to_owned())
}

/// A port for each core, or why there is none.
fn open_each(
    place: &Place<'_>,
    chain: &Chain,
    plan: &Plan,
    interfaces: &[Interface],
    options: PortOptions,
) -> Result<(Vec<LivePort>, Option<Routes>), String> {
    // Of one queue nobody picks a core.
    let spread = match plan.has_one_queue() {
        true => None,
        false => Some(spread(chain, plan).ok_or("the strategy has no table")?),
    };
    let with_spread = |steering: Steering| Steering { spread: spread.clone(), ..steering };
    let steering = options.steering.into_iter().map(with_spread).collect();
    let options = PortOptions { steering, ..options };
    let (modes, routes) = modes(place, plan.cores).map_err(|error| error.to_string())?;
    let pools = Pool::peers(FRAMES * plan.cores.min(MOST), chunk_bytes(interfaces), plan.cores);
    let cores = modes.into_iter().zip(pools).collect();
    let ports = LivePort::open_each(interfaces, cores, &options).map_err(|error| {
        // What to do about it is of no use here: there is a way without.
        error.to_string().lines().next().unwrap_or_default().to_owned()
    })?;
    Ok((ports, routes))
}

/// How the XDP program is to pick cores, as the plan does.
fn spread(chain: &Chain, plan: &Plan) -> Option<Spread> {
    let fields: Fields = plan.hash_fields.map(HashFields::fields)?;
    let hash = Toeplitz::symmetric().by_word()?;
    Some(Spread {
        cores: plan.cores,
        fields,
        hash,
        sides: chain.side_prefixes(),
        owners: plan.indirection()?,
    })
}

/// How packets go between interfaces, for each of so many threads, and what follows routes for them.
fn modes(place: &Place<'_>, threads: usize) -> Result<(Vec<Mode>, Option<Routes>), LiveError> {
    let each = |mode: fn() -> Mode| (0..threads).map(|_| mode()).collect();
    Ok(match place.way {
        Way::Bridge => (each(|| Mode::Bridge), None),
        Way::Mirror => (each(|| Mode::Mirror), None),
        Way::Route => {
            let (routes, forwarders) = Routes::start(threads)?;
            let modes = forwarders.into_iter().map(|forwarder| Mode::Route(Box::new(forwarder)));
            (modes.collect(), Some(routes))
        }
    })
}
