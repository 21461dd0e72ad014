package model

import "time"

// How long an ephemeral node may be away before it is forgotten.
const (
	DefaultForgetAfter = time.Hour
	minForgetAfter     = time.Minute // an agent that lost its server is back by then
	maxForgetAfter     = 365 * 24 * time.Hour
)

// Check says what is wrong with it; nil is right.
func (l *Lifecycle) Check() error {
	switch {
	case l == nil:
		return nil
	case l.ForgetAfter != 0 && !l.Ephemeral:
		return Errorf(Invalid, "lifecycle.forgetAfter is of ephemeral nodes only").WithHint("write lifecycle: {ephemeral: true, forgetAfter: %s}", l.ForgetAfter)
	case l.ForgetAfter != 0 && (time.Duration(l.ForgetAfter) < minForgetAfter || time.Duration(l.ForgetAfter) > maxForgetAfter):
		return Errorf(Invalid, "lifecycle.forgetAfter: %s is not between %s and %s", l.ForgetAfter, Duration(minForgetAfter), Duration(maxForgetAfter))
	}
	return nil
}

// Forget is after how long without a session the node is forgotten; zero: never.
func (l *Lifecycle) Forget() time.Duration {
	switch {
	case l == nil || !l.Ephemeral:
		return 0
	case l.ForgetAfter == 0:
		return DefaultForgetAfter
	}
	return time.Duration(l.ForgetAfter)
}
