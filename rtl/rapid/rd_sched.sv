// The read scheduler, before the first stage of a function (RAPID §4.4, Fig. 4, 6 and 7). A flow whose state was updated is dirty: it
// goes through the Block, Suspend and Schedule queue, and its packets wait in PB. docs/rapid.md has the rules.
//
// All of a cycle is one piece of logic, in the order in which the model does it: a new state arrives, a packet that was sent
// back, a heartbeat; flows move; a packet comes in, or the first of RB has its turn.
module rd_sched #(
    // Whose, from 0.
    parameter int FUNCTION = 0
) (
    input  wire                       clk,
    // Synchronous, active low. After it no flow is dirty and no packet waits.
    input  wire                       resetn,

    // What the ring brings. Each is valid for one cycle.
    input  rapid_program::writeback_t writeback,
    input  rapid_program::packet_t    returned,
    input  wire                       beat,

    // A packet comes, and one goes in, in this cycle; its state is not read yet.
    input  rapid_program::packet_t    arriving,
    output rapid_program::packet_t    entering,
    // For the write scheduler.
    output rapid_program::control_t   control,
    // Packets that found no room in RB and in PB: `place` of each, or 0.
    output logic [31:0]               lost_rb,
    output logic [31:0]               lost_pb
);

  localparam int STAGE_CYCLES = rapid_program::STAGE_CYCLES;
  localparam int READ = rapid_program::READ[32*FUNCTION +: 32];
  localparam int WRITE = rapid_program::WRITE[32*FUNCTION +: 32];
  localparam int FLOWS = rapid_program::FLOWS;
  localparam int RB = rapid_program::RB;
  localparam int PB = rapid_program::PB;
  localparam int MAY_BLOCK = rapid_program::MAY_BLOCK;
  localparam int THRESHOLD = rapid_program::THRESHOLD;
  localparam int ASKED_AT = rapid_program::ASKED_AT[32*FUNCTION +: 32];
  localparam int KEY_AT = rapid_program::KEY_AT[32*FUNCTION +: 32];
  localparam int OWN_KEY_BITS = rapid_program::OWN_KEY_BITS[32*FUNCTION +: 32];
  localparam int KEY_BITS = rapid_program::KEY_BITS;
  localparam int PACKET_BITS = rapid_program::PACKET_BITS;

  localparam int FLOW = FLOWS == 1 ? 1 : $clog2(FLOWS);
  localparam int SLOT = PB == 1 ? 1 : $clog2(PB);
  // T: cycles from a packet's entry until its new state is here, or itself (§4.4).
  localparam int SPAN = WRITE - READ + 1;
  localparam logic [31:0] T = 32'(SPAN * STAGE_CYCLES + SPAN + 2);
`ifdef FAULT_TIMER
  // Planted: the first flow that waits does so a cycle too short.
  localparam logic [31:0] WAIT = T - 32'd1;
`else
  localparam logic [31:0] WAIT = T;
`endif

  // dTable.
  logic [FLOWS-1:0]    used;
  logic [KEY_BITS-1:0] keys [FLOWS];
  logic [31:0]         offset [FLOWS];      // by how much it is due after the flow before it
  logic [31:0]         in_rb [FLOWS];       // its packets in RB
  logic [FLOWS-1:0]    scheduled;
  logic [FLOWS-1:0]    blocked;
  logic [31:0]         updates [FLOWS];     // times that it became dirty again with a backlog
  logic [31:0]         passed [FLOWS];      // packets that went since, less those that came back; with a sign
  // Lists of its packets in PB: sent back, and newer.
  logic [FLOWS-1:0]    has_returned;
  logic [SLOT-1:0]     returned_head [FLOWS];
  logic [SLOT-1:0]     returned_tail [FLOWS];
  logic [FLOWS-1:0]    has_newer;
  logic [SLOT-1:0]     newer_head [FLOWS];
  logic [SLOT-1:0]     newer_tail [FLOWS];
  // Queues of flows; the first is in place 0. `waits` has flows that are blocked, and when the next packet may go.
  logic [FLOW-1:0]     block [FLOWS];
  logic [FLOW-1:0]     suspend [FLOWS];
  logic [FLOW-1:0]     schedule [FLOWS];
  logic [FLOW-1:0]     waits [FLOWS];
  logic [31:0]         due [FLOWS];
  logic [31:0]         block_count;
  logic [31:0]         suspend_count;
  logic [31:0]         schedule_count;
  logic [31:0]         waits_count;
  // Fig. 7: what the first flow still waits, and heartbeats since the last one began.
  logic [31:0]         decrease;
  logic [31:0]         increase;
  logic [31:0]         advances;
  // RB, a ring from `rb_first` on; PB, its packets by slot, and the next one of each in its list.
  logic [PACKET_BITS-1:0] rb [RB];
  logic [31:0]            rb_first;
  logic [31:0]            rb_count;
  logic [PACKET_BITS-1:0] pb [PB];
  logic [PB-1:0]          pb_used;
  logic [SLOT-1:0]        next [PB];

  // What the registers hold next.
  logic [FLOWS-1:0]    n_used;
  logic [KEY_BITS-1:0] n_keys [FLOWS];
  logic [31:0]         n_offset [FLOWS];
  logic [31:0]         n_in_rb [FLOWS];
  logic [FLOWS-1:0]    n_scheduled;
  logic [FLOWS-1:0]    n_blocked;
  logic [31:0]         n_updates [FLOWS];
  logic [31:0]         n_passed [FLOWS];
  logic [FLOWS-1:0]    n_has_returned;
  logic [SLOT-1:0]     n_returned_head [FLOWS];
  logic [SLOT-1:0]     n_returned_tail [FLOWS];
  logic [FLOWS-1:0]    n_has_newer;
  logic [SLOT-1:0]     n_newer_head [FLOWS];
  logic [SLOT-1:0]     n_newer_tail [FLOWS];
  logic [FLOW-1:0]     n_block [FLOWS];
  logic [FLOW-1:0]     n_suspend [FLOWS];
  logic [FLOW-1:0]     n_schedule [FLOWS];
  logic [FLOW-1:0]     n_waits [FLOWS];
  logic [31:0]         n_due [FLOWS];
  logic [31:0]         n_block_count;
  logic [31:0]         n_suspend_count;
  logic [31:0]         n_schedule_count;
  logic [31:0]         n_waits_count;
  logic [31:0]         n_decrease;
  logic [31:0]         n_increase;
  logic [31:0]         n_advances;
  logic [31:0]         n_rb_first;
  logic [31:0]         n_rb_count;
  logic [PB-1:0]       n_pb_used;
  logic [SLOT-1:0]     n_next [PB];

  // A packet goes into RB there, and one into PB.
  logic        rb_write;
  logic [31:0] rb_at;
  logic        pb_write;
  logic [SLOT-1:0] slot;

  logic            found;
  logic            is_free;
  logic            is_ready;
  logic            is_new;
  logic            registers;
  logic            forgets;
  logic [FLOW-1:0] flow;
  logic [SLOT-1:0] head;
  rapid_program::packet_t         candidate;
  rapid_program::phv_t            phv;
  logic            waits_in_pb;

  always_comb begin
    n_used = used;
    n_scheduled = scheduled;
    n_blocked = blocked;
    n_has_returned = has_returned;
    n_has_newer = has_newer;
    n_block_count = block_count;
    n_suspend_count = suspend_count;
    n_schedule_count = schedule_count;
    n_waits_count = waits_count;
    n_decrease = decrease;
    n_increase = increase;
    n_rb_first = rb_first;
    n_rb_count = rb_count;
    n_pb_used = pb_used;
    for (int i = 0; i < FLOWS; i++) begin
      n_keys[i] = keys[i];
      n_offset[i] = offset[i];
      n_in_rb[i] = in_rb[i];
      n_updates[i] = updates[i];
      n_passed[i] = passed[i];
      n_returned_head[i] = returned_head[i];
      n_returned_tail[i] = returned_tail[i];
      n_newer_head[i] = newer_head[i];
      n_newer_tail[i] = newer_tail[i];
      n_block[i] = block[i];
      n_suspend[i] = suspend[i];
      n_schedule[i] = schedule[i];
      n_waits[i] = waits[i];
      n_due[i] = due[i];
    end
    for (int i = 0; i < PB; i++) n_next[i] = next[i];
    control = '0;
    entering = '0;
    lost_rb = 32'd0;
    lost_pb = 32'd0;
    is_ready = 1'b0;
    head = '0;

    // A new state: the flow waits until all its packets that read the old one are back. One that waits already does so.
    found = 1'b0;
    is_free = 1'b0;
    flow = '0;
    for (int i = FLOWS - 1; i >= 0; i--) begin
      if (!used[i] && !found) begin
        is_free = 1'b1;
        flow = FLOW'(i);
      end
      if (used[i] && keys[i] == writeback.key) begin
        found = 1'b1;
        flow = FLOW'(i);
      end
    end
    registers = writeback.valid && writeback.is_dirty && (found ? scheduled[flow] : is_free);
    if (registers) begin
      if (found) begin
        n_updates[flow] = updates[flow] + 32'd1;
        // It leaves the Schedule queue, wherever it is there.
        for (int i = 0; i < FLOWS; i++) begin
          if (32'(i) < n_schedule_count && n_schedule[i] == flow) begin
            for (int j = i; j + 1 < FLOWS; j++) n_schedule[j] = n_schedule[j+1];
            n_schedule_count = n_schedule_count - 32'd1;
          end
        end
      end else begin
        n_used[flow] = 1'b1;
        n_keys[flow] = writeback.key;
        n_in_rb[flow] = 32'd0;
        n_blocked[flow] = 1'b0;
        n_updates[flow] = 32'd0;
        n_passed[flow] = 32'd0;
        n_has_returned[flow] = 1'b0;
        n_has_newer[flow] = 1'b0;
      end
      n_scheduled[flow] = 1'b0;
      n_offset[flow] = block_count == 32'd0 ? T : increase;
      if (block_count == 32'd0) n_decrease = WAIT;
      n_increase = 32'd0;
      n_block[block_count[FLOW-1:0]] = flow;
      n_block_count = block_count + 32'd1;
    end

    // A packet was sent back: into RB.
`ifdef FAULT_RB
    // Planted: a full RB takes one more.
    rb_write = returned.valid;
`else
    rb_write = returned.valid && rb_count != 32'(RB);
`endif
    rb_at = rb_first + rb_count;
    if (rb_at >= 32'(RB)) rb_at = rb_at - 32'(RB);
    if (returned.valid && !rb_write) lost_rb = returned.place;
    if (rb_write) begin
      n_rb_count = rb_count + 32'd1;
      for (int i = 0; i < FLOWS; i++) begin
        if (n_used[i] && n_keys[i] == returned.key) n_in_rb[i] = n_in_rb[i] + 32'd1;
      end
    end

    // A heartbeat counts for a flow that was registered in this cycle.
    if (beat) begin
      if (n_decrease != 32'd0) n_decrease = n_decrease - 32'd1;
      if (n_increase != T) n_increase = n_increase + 32'd1;
    end

    // At most one flow leaves each queue.
    forgets = 1'b0;
    if (waits_count != 32'd0 && !(advances - due[0] >= 32'h8000_0000)) begin
      flow = waits[0];
      for (int i = 0; i + 1 < FLOWS; i++) begin
        n_waits[i] = waits[i+1];
        n_due[i] = due[i+1];
      end
      n_waits_count = waits_count - 32'd1;
      if (n_has_newer[flow]) begin
        n_schedule[n_schedule_count[FLOW-1:0]] = flow;
        n_schedule_count = n_schedule_count + 32'd1;
      end else begin
        n_used[flow] = 1'b0;
        control.frees[0] = 1'b1;
        control.free_0 = n_keys[flow];
      end
    end
    for (int turn = 0; turn < 2; turn++) begin
      is_ready = 1'b0;
      if (turn == 0) begin
        flow = n_suspend[0];
        if (n_suspend_count != 32'd0 && n_in_rb[flow] == 32'd0) begin
          is_ready = 1'b1;
          for (int i = 0; i + 1 < FLOWS; i++) n_suspend[i] = n_suspend[i+1];
          n_suspend_count = n_suspend_count - 32'd1;
        end
      end else begin
        flow = n_block[0];
        if (n_block_count != 32'd0 && n_decrease == 32'd0) begin
          is_ready = n_in_rb[flow] == 32'd0;
          for (int i = 0; i + 1 < FLOWS; i++) n_block[i] = n_block[i+1];
          n_block_count = n_block_count - 32'd1;
          if (n_block_count != 32'd0) n_decrease = n_offset[n_block[0]];
          if (!is_ready) begin
            n_suspend[n_suspend_count[FLOW-1:0]] = flow;
            n_suspend_count = n_suspend_count + 32'd1;
          end
        end
      end
      // All stale packets of the flow are in PB: they go before those that arrived later.
      if (is_ready) begin
        if (n_has_returned[flow]) begin
          n_next[n_returned_tail[flow]] = n_newer_head[flow];
          if (!n_has_newer[flow]) n_newer_tail[flow] = n_returned_tail[flow];
          n_newer_head[flow] = n_returned_head[flow];
          n_has_newer[flow] = 1'b1;
          n_has_returned[flow] = 1'b0;
        end
        n_scheduled[flow] = 1'b1;
        if (n_updates[flow] == 32'd0) n_passed[flow] = 32'd0;
        // An update costs speculation two turnarounds, and blocking costs one for every packet.
        n_blocked[flow] = MAY_BLOCK != 0 && n_updates[flow] > 32'(THRESHOLD)
            && $signed(n_passed[flow]) < $signed(n_updates[flow] << 1);
        forgets = !n_has_newer[flow];
        if (forgets) n_used[flow] = 1'b0;
        else begin
          n_schedule[n_schedule_count[FLOW-1:0]] = flow;
          n_schedule_count = n_schedule_count + 32'd1;
        end
        control.cancels[turn] = 1'b1;
        control.frees[turn+1] = forgets;
        if (turn == 0) begin
          control.cancel_0 = n_keys[flow];
          control.free_1 = n_keys[flow];
        end else begin
          control.cancel_1 = n_keys[flow];
          control.free_2 = n_keys[flow];
        end
      end
    end

    // A packet comes, or the first of RB has its turn. That may have come in this cycle.
    n_advances = advances + 32'd1;
    is_new = arriving.valid;
    candidate = is_new ? arriving : rb_count == 32'd0 ? returned : rb[rb_first];
    candidate.valid = is_new || n_rb_count != 32'd0;
    if (!is_new && n_rb_count != 32'd0) begin
      n_rb_first = rb_first + 32'd1 == 32'(RB) ? 32'd0 : rb_first + 32'd1;
      n_rb_count = n_rb_count - 32'd1;
    end
    phv = candidate.phv;
    candidate.uses_table = phv[ASKED_AT];
    candidate.key = KEY_BITS'(phv[KEY_AT +: OWN_KEY_BITS]);
    found = 1'b0;
    flow = '0;
    for (int i = 0; i < FLOWS; i++) begin
      if (n_used[i] && n_keys[i] == candidate.key) begin
        found = 1'b1;
        flow = FLOW'(i);
      end
    end
    waits_in_pb = candidate.valid && candidate.uses_table && found;
    slot = '0;
    for (int i = PB - 1; i >= 0; i--) if (!pb_used[i]) slot = SLOT'(i);
    pb_write = waits_in_pb && !(&pb_used);
    if (waits_in_pb) begin
      if (!is_new) begin
        n_in_rb[flow] = n_in_rb[flow] - 32'd1;
        n_passed[flow] = n_passed[flow] - 32'd1;
      end
      if (!pb_write) lost_pb = candidate.place;
      else if (is_new) begin
        n_pb_used[slot] = 1'b1;
        if (n_has_newer[flow]) n_next[n_newer_tail[flow]] = slot;
        else n_newer_head[flow] = slot;
        n_newer_tail[flow] = slot;
        n_has_newer[flow] = 1'b1;
      end else begin
        n_pb_used[slot] = 1'b1;
        if (n_has_returned[flow]) n_next[n_returned_tail[flow]] = slot;
        else n_returned_head[flow] = slot;
        n_returned_tail[flow] = slot;
        n_has_returned[flow] = 1'b1;
      end
    end

    // If that packet waits, or there is none, the next flow in turn lets one go.
    if (candidate.valid && !waits_in_pb) entering = candidate;
    else if (n_schedule_count != 32'd0) begin
      flow = n_schedule[0];
      for (int i = 0; i + 1 < FLOWS; i++) n_schedule[i] = n_schedule[i+1];
      n_schedule_count = n_schedule_count - 32'd1;
      head = n_newer_head[flow];
      entering = pb[head];
      entering.valid = 1'b1;
      entering.is_alone = n_blocked[flow];
      n_passed[flow] = n_passed[flow] + 32'd1;
      n_pb_used[head] = 1'b0;
      if (n_newer_tail[flow] == head) n_has_newer[flow] = 1'b0;
      n_newer_head[flow] = n_next[head];
      if (n_blocked[flow]) begin
        n_waits[n_waits_count[FLOW-1:0]] = flow;
        // Looked at before the cycle's own advance is counted.
        n_due[n_waits_count[FLOW-1:0]] = n_advances + T - 32'd1;
        n_waits_count = n_waits_count + 32'd1;
      end else if (!n_has_newer[flow]) begin
        n_used[flow] = 1'b0;
        control.frees[3] = 1'b1;
        control.free_3 = n_keys[flow];
      end else begin
        n_schedule[n_schedule_count[FLOW-1:0]] = flow;
        n_schedule_count = n_schedule_count + 32'd1;
      end
    end
`ifdef FAULT_CANCEL
    // Planted: `cancel_dirty` of a flow that leaves the Block queue is not sent.
    control.cancels[1] = 1'b0;
`endif
  end

  always_ff @(posedge clk) begin
    if (!resetn) begin
      used <= '0;
      scheduled <= '0;
      blocked <= '0;
      has_returned <= '0;
      has_newer <= '0;
      block_count <= 32'd0;
      suspend_count <= 32'd0;
      schedule_count <= 32'd0;
      waits_count <= 32'd0;
      decrease <= 32'd0;
      increase <= T;
      advances <= 32'd0;
      rb_first <= 32'd0;
      rb_count <= 32'd0;
      pb_used <= '0;
    end else begin
      used <= n_used;
      scheduled <= n_scheduled;
      blocked <= n_blocked;
      has_returned <= n_has_returned;
      has_newer <= n_has_newer;
      block_count <= n_block_count;
      suspend_count <= n_suspend_count;
      schedule_count <= n_schedule_count;
      waits_count <= n_waits_count;
      decrease <= n_decrease;
      increase <= n_increase;
      advances <= n_advances;
      rb_first <= n_rb_first;
      rb_count <= n_rb_count;
      pb_used <= n_pb_used;
    end
  end

  generate
    for (genvar i = 0; i < FLOWS; i++) begin : g_flow
      always_ff @(posedge clk) begin
        keys[i] <= n_keys[i];
        offset[i] <= n_offset[i];
        in_rb[i] <= n_in_rb[i];
        updates[i] <= n_updates[i];
        passed[i] <= n_passed[i];
        returned_head[i] <= n_returned_head[i];
        returned_tail[i] <= n_returned_tail[i];
        newer_head[i] <= n_newer_head[i];
        newer_tail[i] <= n_newer_tail[i];
        block[i] <= n_block[i];
        suspend[i] <= n_suspend[i];
        schedule[i] <= n_schedule[i];
        waits[i] <= n_waits[i];
        due[i] <= n_due[i];
      end
    end
    for (genvar i = 0; i < PB; i++) begin : g_slot
      always_ff @(posedge clk) begin
        next[i] <= n_next[i];
        if (pb_write && slot == SLOT'(i)) pb[i] <= candidate;
      end
    end
    for (genvar i = 0; i < RB; i++) begin : g_rb
      always_ff @(posedge clk) if (rb_write && rb_at == 32'(i)) rb[i] <= returned;
    end
  endgenerate

`ifdef FORMAL
  // RB has room for what it holds, and a flow is in one queue of them at most. A slot of PB is written where it was free.
  always_ff @(posedge clk) begin
    if (resetn) begin
      assert (rb_count <= 32'(RB));
      assert (block_count + suspend_count + schedule_count + waits_count <= 32'(FLOWS));
      if (pb_write) assert (!pb_used[slot]);
    end
  end
`endif

endmodule
