package model

// ProblemService names the handler's service if it keeps problems, which open and close: the single message that a
// node was forgotten would stay open there. Empty: the handler takes any message.
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
