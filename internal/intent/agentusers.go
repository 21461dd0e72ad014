package intent

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/muster-fleet/muster/internal/model"
)

// Roles of what programs come with: nobody logs in with them, and each opens one thing. The password
// of Agents stands on every machine, so it says nothing of others, as Alerts does.
const (
	Agents = "agent"  // of a user: lets agents of another system in, by its password
	Alerts = "alerts" // of a user or token: brings alerts in, of any node
)

// forPrograms says whether a role is one of those.
func forPrograms(role string) bool { return role == Agents || role == Alerts }

// AgentUser is a user with such a role, as of when its password was checked.
type AgentUser struct {
	Name       string
	role       string
	Namespaces []string // where its agents may be; none: everywhere
	hash       string
}

// May says whether its agents may be in a namespace.
func (u *AgentUser) May(namespace string) bool {
	return len(u.Namespaces) == 0 || slices.Contains(u.Namespaces, namespace)
}

// remembered are passwords of agents that were checked: a fleet has few, and comes with them
// at once. They are kept as keyed hashes, together with the hash on record, so that another
// password is in force at once.
type remembered struct {
	verify chan struct{} // at most two at a time, beside those of people
	key    [32]byte

	mu sync.Mutex
	by map[[32]byte]*verdict
}

// verdict is one password: done is closed once good is known, or why nobody looked.
type verdict struct {
	done  chan struct{}
	good  bool
	err   error
	until time.Time // a wrong one gives way to others from then on
}

// Begin is asked before a password is looked at that was not seen before: it may wait, or refuse.
// end hears whether it was wrong.
type Begin func(ctx context.Context) (end func(wrong bool), err error)

const (
	mostRemembered = 10_000
	wrongFor       = 10 * time.Second
)

func newRemembered() *remembered {
	r := &remembered{verify: make(chan struct{}, 2), by: map[[32]byte]*verdict{}}
	_, _ = rand.Read(r.key[:]) // never fails
	return r
}

// AgentUser finds a user with the role agent, who has proven by other means who he is.
func (s *Service) AgentUser(name string) (AgentUser, error) {
	row, ok := s.users.user(name)
	if !ok || row.Role != Agents {
		return AgentUser{}, badAgent(Agents)
	}
	return AgentUser{Name: name, role: Agents, Namespaces: row.Namespaces, hash: row.Hash}, nil
}

// LoginAgent checks the password of a user with a role for programs. One that was seen before, right or wrong, costs a look
// into memory, and begin, which may be nil, is not asked.
func (s *Service) LoginAgent(ctx context.Context, role, name, password string, begin Begin) (AgentUser, error) {
	row, known := s.users.user(name)
	if !known || row.Role != role {
		known, row.Hash = false, nobodysHash // as slow as for a known user
	}
	good, err := s.users.agents.check(ctx, name, password, row.Hash, s.opts.Now, begin)
	if err != nil {
		return AgentUser{}, err
	}
	if !good || !known {
		return AgentUser{}, badAgent(role)
	}
	return AgentUser{Name: name, role: role, Namespaces: row.Namespaces, hash: row.Hash}, nil
}

// StillAgent says whether a user is what it was when its password was checked.
func (s *Service) StillAgent(u *AgentUser) bool {
	row, ok := s.users.user(u.Name)
	return ok && row.Role == u.role && row.Hash == u.hash && slices.Equal(row.Namespaces, u.Namespaces)
}

func badAgent(role string) error {
	return model.Errorf(model.Unauthenticated, "no user with the role %s has this password", role).
		WithHint("on the server: muster auth user create NAME --role %s", role)
}

// check compares a password with a hash, or remembers how that ended. Who comes with a
// password that is being checked waits for that; where nobody may look at it for who came first, another
// one may.
func (r *remembered) check(ctx context.Context, name, password, hash string, now func() time.Time, begin Begin) (good bool, err error) {
	sum := r.sum(name, password, hash)
	for {
		r.mu.Lock()
		v := r.by[sum]
		mine := v == nil
		if mine {
			if !r.room(now()) {
				r.mu.Unlock()
				return false, tooManyPasswords()
			}
			v = &verdict{done: make(chan struct{})}
			r.by[sum] = v
			go r.compare(ctx, v, sum, password, hash, now, begin)
		}
		r.mu.Unlock()
		select {
		case <-v.done:
			if v.err == nil || mine {
				return v.good, v.err
			}
		case <-ctx.Done():
			return false, tooManyPasswords()
		}
	}
}

// compare goes on when who came first has gone, once it has begun.
func (r *remembered) compare(ctx context.Context, v *verdict, sum [32]byte, password, hash string, now func() time.Time, begin Begin) {
	defer close(v.done)
	end := func(bool) {}
	if begin != nil {
		var err error
		if end, err = begin(ctx); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.by, sum)
			if v.err = err; ctx.Err() != nil {
				v.err = tooManyPasswords()
			}
			return
		}
	}
	r.verify <- struct{}{}
	defer func() { <-r.verify }()
	good, err := argon2id.ComparePasswordAndHash(password, hash)
	good = good && err == nil
	end(!good)
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.good = good; !good {
		v.until = now().Add(wrongFor)
	}
}

func tooManyPasswords() error {
	return model.Errorf(model.Unavailable, "too many passwords are being checked").WithHint("come again in a moment")
}

// room keeps the map small: who guesses makes entries that are forgotten soon, and pushes out
// guesses alone: the good ones are few, and a fleet lives on them. False: all others are being
// checked. The caller holds the lock.
func (r *remembered) room(now time.Time) bool {
	if len(r.by) < mostRemembered {
		return true
	}
	for sum, v := range r.by {
		if !v.until.IsZero() && now.After(v.until) {
			delete(r.by, sum)
		}
	}
	if len(r.by) < mostRemembered {
		return true
	}
	for sum, v := range r.by {
		select {
		case <-v.done:
			if !v.good {
				delete(r.by, sum)
				return true
			}
		default:
		}
	}
	return false
}

func (r *remembered) sum(parts ...string) (sum [32]byte) {
	h := hmac.New(sha256.New, r.key[:])
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Sum(sum[:0])
	return sum
}
