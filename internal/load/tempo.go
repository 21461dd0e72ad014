package load

// tempo returns the score of a pipeline other than the results: the same parts, at the rates by which phases speed the
// pipeline up.
func (r *run) tempo(pipeline string) score {
	var own score
	for _, p := range r.present() {
		p.Rate = r.speed(pipeline, p.Phase)
		own = own.and(p)
	}
	return own
}

// speed returns by how much a phase speeds a pipeline up; 1 without phases.
func (r *run) speed(pipeline string, phase int) float64 {
	if sc := r.cfg.Scenario; sc != nil && phase < len(sc.Phases) {
		return sc.Phases[phase].Speed(pipeline)
	}
	return 1
}

// meant returns the real time of a virtual time, at most the end.
func (s score) meant(virtual int64) int64 {
	hint := 0
	return s.real(virtual, &hint)
}

// virtual returns the virtual time of a real time, at most the virtual time of the end.
func (s score) virtual(real int64) int64 {
	for i := len(s) - 1; i >= 0; i-- {
		if p := &s[i]; real >= p.From {
			return p.Virtual + int64(float64(min(real, p.To)-p.From)*p.Rate)
		}
	}
	return -1
}
