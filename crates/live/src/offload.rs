//! What a sender on this machine leaves to a network card that its packets never meet: checksums, and segments. Which
//! interfaces may hand up such packets.
//!
//! ```text
//!   a card                        computes and segments before packets come
//!   veth, tun, dummy ...          no card: what the sender left is still left
//!   macvlan, bridge, VXLAN ...    as what is below them, and as their own senders beside them
//!   VLAN, bond, team              as what is below them (sysfs: lower_*); but where XDP is generic, the kernel has merged
//!                                 segments below them (GRO), and then even a card's packets have checksums to complete
//! ```

use std::fs;
use std::path::Path;

use crate::Interface;
use crate::interface::driver_of;
use crate::xdp::AttachMode;

/// Where the kernel shows interfaces, with a folder each.
const SYSFS: &str = "/sys/class/net";
/// Drivers of devices whose other end is on this machine, for all that they look like cards: a virtual machine's.
const PARAVIRTUAL: [&str; 4] = ["virtio_net", "vif", "xen_netback", "ibmveth"];
/// Drivers of devices that have no senders but those below them.
const PASSES_ON: [&str; 3] = ["802.1Q VLAN Support", "bonding", "team"];
/// Devices on devices that are followed; the kernel has fewer.
const DEEPEST: usize = 8;

/// What packets of an interface may have left to a card when an XDP program of this mode sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftToCard {
    /// Checksums.
    pub(crate) sums: bool,
    /// Segmentation: a packet may be longer than the MTU.
    pub(crate) segments: bool,
}

impl LeftToCard {
    pub(crate) fn by(interface: &Interface, mode: AttachMode) -> LeftToCard {
        let sysfs = Path::new(SYSFS);
        // Another namespace's interfaces may be shown there: then nothing is known.
        let index = fs::read_to_string(sysfs.join(&interface.name).join("ifindex")).unwrap_or_default();
        let is_shown = index.trim() == interface.index.to_string();
        let tree = Tree { sysfs, driver_of: &driver_of };
        let has_card = is_shown && tree.has_card(&interface.name);
        // At a card the kernel does not merge segments ahead of a program, and with one in the driver a veth takes none.
        let segments = !has_card && (mode == AttachMode::Generic || interface.driver == "tun");
        let sums = segments || !is_shown || tree.leaves_sums(&interface.name, &interface.driver, DEEPEST);
        LeftToCard { sums, segments }
    }
}

/// Interfaces and what is below them.
struct Tree<'a> {
    sysfs: &'a Path,
    /// As `ethtool -i` names it.
    driver_of: &'a dyn Fn(&str) -> String,
}

impl Tree<'_> {
    /// Whether an interface is a device's of its own, and of no software.
    fn has_card(&self, name: &str) -> bool {
        self.sysfs.join(name).join("device").exists()
    }

    fn leaves_sums(&self, name: &str, driver: &str, depth: usize) -> bool {
        if self.has_card(name) {
            return PARAVIRTUAL.contains(&driver);
        }
        if !PASSES_ON.contains(&driver) || depth == 0 {
            return true;
        }
        let lower = fs::read_dir(self.sysfs.join(name)).into_iter().flatten().flatten();
        let lower = lower.filter_map(|entry| {
            entry.file_name().to_str().and_then(|name| name.strip_prefix("lower_")).map(str::to_owned)
        });
        let lower: Vec<String> = lower.collect();
        // What is below may be in another namespace.
        lower.is_empty()
            || lower.iter().any(|name| self.leaves_sums(name, &(self.driver_of)(name), depth - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices in a folder of their own: name, driver, whether a card, what is below.
    const DEVICES: [(&str, &str, bool, &[&str]); 14] = [
        ("eth0", "ixgbe", true, &[]),
        ("eth1", "mlx5_core", true, &[]),
        ("vm0", "virtio_net", true, &[]),
        ("veth0", "veth", false, &[]),
        ("dummy0", "dummy", false, &[]),
        ("eth0.10", "802.1Q VLAN Support", false, &["eth0"]),
        ("veth0.10", "802.1Q VLAN Support", false, &["veth0"]),
        ("bond0", "bonding", false, &["eth0", "eth1"]),
        ("bond1", "bonding", false, &["eth0", "veth0"]),
        ("bond0.10", "802.1Q VLAN Support", false, &["bond0"]),
        ("bond1.10", "802.1Q VLAN Support", false, &["bond1"]),
        ("away.10", "802.1Q VLAN Support", false, &[]),
        // Those beside it send through it.
        ("mac0", "macvlan", false, &["eth0"]),
        ("br0", "bridge", false, &["eth0"]),
    ];

    #[test]
    fn what_is_below_says_whether_checksums_are_left() {
        let folder = std::env::temp_dir().join(format!("paceline-{}-offload", std::process::id()));
        for (name, _, is_card, lower) in DEVICES {
            fs::create_dir_all(folder.join(name)).expect("a temporary folder");
            let lower = lower.iter().map(|lower| format!("lower_{lower}"));
            for entry in lower.chain(is_card.then(|| "device".to_owned())) {
                fs::write(folder.join(name).join(entry), "").expect("a temporary file");
            }
        }
        let driver_of = |name: &str| {
            let found = DEVICES.iter().find(|device| device.0 == name);
            found.map_or_else(String::new, |device| device.1.to_owned())
        };
        let tree = Tree { sysfs: &folder, driver_of: &driver_of };
        let left = DEVICES.iter().filter(|(name, driver, ..)| tree.leaves_sums(name, driver, DEEPEST));
        let left: Vec<&str> = left.map(|device| device.0).collect();
        fs::remove_dir_all(&folder).expect("it is there");
        let expected = ["vm0", "veth0", "dummy0", "veth0.10", "bond1", "bond1.10", "away.10", "mac0", "br0"];
        assert_eq!(left, expected);
    }
}
