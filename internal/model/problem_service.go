package model

// ProblemService names the service of a handler that keeps problems, which open and close, and has
// no place for what happens once: that a node was forgotten would stay open there for ever.
// Empty: the handler takes any message.
func (s *HandlerSpec) ProblemService() string {
	switch {
	case s.PagerDuty != nil:
		return "PagerDuty"
	case s.Opsgenie != nil:
		return "Opsgenie"
	case s.Alertmanager != nil:
		return "Alertmanager"
	}
	return ""
}
