/* Sends a packet out of an interface, with another source port each time: what examples/xdp_source.rs runs in the
 * kernel, by BPF_PROG_TEST_RUN with live frames. */
#include "bpf.h"

/* Set before the program is loaded. */
const volatile u32 interface = 0;
const volatile u32 flows = 1;

u32 next = 0;

SEC("xdp")
int source(struct xdp_md *packet)
{
    void *at = (void *)(u64)packet->data, *end = (void *)(u64)packet->data_end;
    struct udp *udp = at + sizeof(struct ethernet) + sizeof(struct ipv4);
    if ((void *)(udp + 1) > end)
        return XDP_ABORTED;
    u32 flow = next + 1;
    if (flow >= flows)
        flow = 0;
    next = flow;
    udp->source = NET16((u16)(1024 + flow));
    return redirect(interface, 0);
}

char _license[] SEC("license") = "MIT OR Apache-2.0";
