package report

// Counting are the phases that the run's figures are of: all that were measured, but for those that
// are judged by themselves and for one that was cut short beside whole ones.
func (rep *Report) Counting() (list []Played) {
	for _, p := range rep.Phases {
		if p.Offered > 0 && !p.apart() && (!p.Short || rep.Stopped == nil || rep.Stopped.Whole == 0) {
			list = append(list, p)
		}
	}
	return list
}

// apart is Apart; older reports do not say it of faults and of steps that broke.
func (p *Played) apart() bool {
	return p.Apart || p.Kind == KindFault || p.Kind == KindStep && len(p.Missed) > 0
}

// Lasted is for how many seconds was measured what the figures are of.
func (rep *Report) Lasted() (seconds float64) {
	for _, p := range rep.Counting() {
		seconds += p.To - p.From
	}
	if seconds == 0 {
		return rep.Plan.Duration
	}
	return seconds
}

// Offered is the least, the greatest and the mean rate of what counts, in results per second: phases
// have rates of their own.
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
