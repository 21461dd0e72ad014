package load

// tempo is the score of a pipeline that is not the results: the same parts, in which its
// own virtual time runs as fast as the phases say (see scenario.Pipelines).
func (r *run) tempo(pipeline string) score {
	var own score
	for _, p := range r.present() {
		p.Rate = r.speed(pipeline, p.Phase)
		own = own.and(p)
	}
	return own
}

// speed is how fast a pipeline is in a phase; usual where a score has no phases.
func (r *run) speed(pipeline string, phase int) float64 {
	if sc := r.cfg.Scenario; sc != nil && phase < len(sc.Phases) {
		return sc.Phases[phase].Speed(pipeline)
	}
	return 1
}

// meant is the instant of the run at which something is to happen that is due at a virtual
// time; never behind the end.
func (s score) meant(virtual int64) int64 {
	hint := 0
	return s.real(virtual, &hint)
}

// virtual is the virtual time of an instant; behind the end it is that of the end.
func (s score) virtual(real int64) int64 {
	for i := len(s) - 1; i >= 0; i-- {
		if p := &s[i]; real >= p.From {
			return p.Virtual + int64(float64(min(real, p.To)-p.From)*p.Rate)
		}
	}
	return -1
}
