// Numbers and times as people read them.

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const prefixes: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Three digits and a prefix: 1.23 M. */
export function rate(number: number): string {
  const rounded = Number(number.toPrecision(3));
  const [scale, prefix] = prefixes.find(([scale]) => rounded >= scale) ?? [1, ""];
  return prefix === "" ? three.format(rounded) : `${three.format(rounded / scale)}\u00a0${prefix}`;
}

/** All digits, with commas. */
export const count = (number: number): string => whole.format(number);

/** A share, neither 0% of something nor 100% of not all. */
export function percent(share: number): string {
  const number = 100 * share;
  if (number > 0 && number < 0.1) return "<0.1%";
  if (number > 99 && number < 100) return `${(Math.floor(number * 10) / 10).toFixed(1)}%`;
  return `${number.toFixed(number < 10 ? 1 : 0)}%`;
}

/** A time of any length, in its two largest units at most. */
export function time(seconds: number): string {
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
