package model

import "time"

// Absence after which an ephemeral node is removed.
const (
	DefaultForgetAfter = time.Hour
	MinForgetAfter     = time.Minute // an agent that lost its server is back by then
	MaxForgetAfter     = 365 * 24 * time.Hour
)

// ForgetDelay returns the time without a session after which the node is removed; zero: never.
func (l *Lifecycle) ForgetDelay() time.Duration {
	switch {
	case l == nil || !l.Ephemeral:
		return 0
	case l.ForgetAfter == 0:
		return DefaultForgetAfter
	}
	return time.Duration(l.ForgetAfter)
}

// EffectiveTimes returns interval and timeout with their defaults.
func (k *Keepalive) EffectiveTimes() (interval, timeout Duration) {
	interval, timeout = Duration(DefaultKeepalive), Duration(DefaultKeepaliveTimeout)
	if k != nil && k.Interval > 0 {
		interval = k.Interval
	}
	if k != nil && k.Timeout > 0 {
		timeout = k.Timeout
	}
	return interval, timeout
}
