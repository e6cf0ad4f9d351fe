// What the server tells: messages of /events and /flows, and lines of /trace, as docs/web*.schema.json have them.

export interface View {
  paceline: string;
  chain: string;
  strategy: string;
  seconds: number;
  has_ended: boolean;
  offers: string[];
  headline: string;
  warnings: string[];
  packets: number;
  packets_per_s: number;
  bits_per_s: number;
  verdicts: { verdict: string; per_s: number; total: number }[];
  interfaces: InterfaceView[];
  drops: { by: string; reason: string; per_s: number; total: number }[];
  functions: { name: string; packets_per_s: number; drops_per_s: number; table: TableView | null }[];
  rules: { shown: RuleView[]; left_out: number };
  cores: CoreView[];
  told: StrategyView | null;
  events: { by: string; event: string; per_s: number; total: number }[];
  log: { number: number; seconds: number; text: string }[];
  points: Point[];
}

export interface InterfaceView {
  name: string;
  received_per_s: number;
  received_bits_per_s: number;
  sent_per_s: number;
  sent_bits_per_s: number;
  lost_per_s: number;
  lost: number;
  lost_most: string | null;
}

export interface TableView {
  flows: number;
  fullest_core: number;
  fullest_flows: number;
  fullest_capacity: number;
  load: number;
  full_in_seconds: number | null;
  created_per_s: number;
  ended_per_s: number;
  evicted_per_s: number;
  rejected_per_s: number;
}

export interface RuleView {
  function: string;
  rule: string;
  text: string;
  per_s: number;
  decided: number;
}

export interface CoreView {
  core: number;
  busy: number;
  packets_per_s: number;
  bits_per_s: number;
  drops_per_s: number;
  queue: number | null;
  moved_in: number;
  moved_out: number;
}

export interface StrategyView {
  runs: string;
  cores: number;
  active_cores: number | null;
  looks: number;
  moves: number;
  unit: string;
  promotions: number | null;
  promoted_share: number | null;
  p99_objective_us: number | null;
  p99_measured_us: number | null;
  p99_predicted_us: number | null;
}

export interface Point {
  seconds: number;
  packets_per_s: number;
  drops_per_s: number;
  busiest: number;
}

export interface FlowsView {
  seconds: number;
  took_seconds: number;
  core_percent: number;
  seen: number;
  has_rates: boolean;
  flows: FlowView[];
  error: string | null;
}

export interface FlowView {
  function: string;
  key: string;
  core: number | null;
  packets_per_s: number | null;
  bits_per_s: number | null;
  packets: number;
  bytes: number | null;
}

export interface TraceView {
  began: string | null;
  packet: string | null;
  refused: string | null;
  ended: { shown: number; matched: number; missed: number; by: string } | null;
}
