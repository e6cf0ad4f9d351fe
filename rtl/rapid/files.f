rtl/rapid/packet_queue.sv
rtl/rapid/mu_table.sv
rtl/rapid/stage.sv
rtl/rapid/ring_node.sv
rtl/rapid/wr_sched.sv
rtl/rapid/rd_sched.sv
rtl/rapid/span.sv
rtl/rapid/rapid.sv
