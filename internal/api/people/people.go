// Package people answers about users, logins and tokens.
//
// Nobody gives rights that they do not have. Passwords are expensive to check and are guessed, so
// logins are throttled by the address of the caller and bounded as a whole.
//
// Start reading at Register.
package people

import (
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/tries"
)

// request is one request about people.
type request struct {
	op.Request
	passwords *tries.Limiter // attempts, by network
	logins    *op.Turns      // a password takes 19 MiB and some 20 ms to check
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes) {
	passwords, logins := tries.New(r.View().Now), op.NewTurns("logins", r.Queues)
	at := op.For(r, func(q op.Request) *request { return &request{q, passwords, logins} })
	registerLogins(at)
	registerUsers(at)
}
