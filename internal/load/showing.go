package load

import "maps"

// Figures are those of the run's figures that one second shows, in their units, by their
// names (see scenario.Figures): so far as this second goes, whoever looks at it can hold it
// against an objective. The rate is not among them: results come in bursts.
func (s *Sample) Figures() map[string]float64 {
	all := maps.Clone(s.Waits)
	if all == nil {
		all = map[string]float64{}
	}
	if l := s.Latency; l != nil {
		all["p50"], all["p99"], all["p999"], all["max"] = l.P50, l.P99, l.P999, l.Max
	}
	if s.Beyond > 0 {
		all["beyond-p99"] = s.Beyond
	}
	if s.Behind != nil {
		all[historyBehind] = *s.Behind
	}
	return all
}
