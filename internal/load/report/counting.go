package report

// Counting returns the phases of the run's figures: all that were measured, without those that are judged apart, and
// without one that was cut short, unless it is the only one.
func (rep *Report) Counting() (list []Played) {
	for _, p := range rep.Phases {
		if p.Offered > 0 && !p.Apart && (!p.Short || rep.Stopped == nil || rep.Stopped.Whole == 0) {
			list = append(list, p)
		}
	}
	return list
}

// Lasted returns the seconds of the figures.
func (rep *Report) Lasted() (seconds float64) {
	for _, p := range rep.Counting() {
		seconds += p.To - p.From
	}
	if seconds == 0 {
		return rep.Plan.Duration
	}
	return seconds
}

// Offered returns the least, the greatest and the mean rate of the phases that count, in results per second.
func (rep *Report) Offered() (low, high, mean float64) {
	length := 0.0
	for _, p := range rep.Counting() {
		if length == 0 {
			low = p.Offered
		}
		low, high = min(low, p.Offered), max(high, p.Offered)
		mean += p.Offered * (p.To - p.From)
		length += p.To - p.From
	}
	if length == 0 {
		return rep.Plan.Offered, rep.Plan.Offered, rep.Plan.Offered
	}
	if high-low < 0.02*high { // the chance of a stretch
		low, high = rep.Plan.Offered, rep.Plan.Offered
	}
	return low, high, mean / length
}
