package access

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
)

// Kinds of the rows that this package owns.
const (
	userKind  = "user"
	tokenKind = "token"
)

// Options are the surroundings of a Service.
type Options struct {
	Store  intent.Store
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none
}

// Service keeps users and tokens, and answers from memory whose a token is. It is safe for
// concurrent use.
type Service struct {
	opts     Options
	index    index
	hashing  chan struct{} // at most two passwords of people at a time: argon2 costs memory
	programs *passwordCache

	// accounts is held over a change of users or passwords, from the look that decides it to the
	// write, and while a session is made.
	accounts sync.Mutex
	// writing is held from before a row is written until the index has it, so that the last row
	// written is the last one taken.
	writing sync.Mutex
}

// NewService makes a service; call Load before anything else.
func NewService(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{opts: o, index: newIndex(), hashing: make(chan struct{}, 2), programs: newPasswordCache()}
}

// Load reads users and tokens.
func (s *Service) Load(ctx context.Context) error {
	for _, kind := range []string{userKind, tokenKind} {
		rows, err := s.opts.Store.List(ctx, intent.ListQuery{Kind: kind})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := s.index.put(row); err != nil {
				return fmt.Errorf("load %s: %w", row.Key, err)
			}
		}
	}
	return nil
}

// commit writes rows, then the index. It is the only way in which either is written.
func (s *Service) commit(ctx context.Context, by intent.Actor, writes []intent.Write) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	done, err := s.opts.Store.Commit(ctx, by, writes)
	if err != nil {
		return err
	}
	for i, row := range done.Rows {
		if writes[i].Body == nil {
			s.index.remove(row.Key)
		} else if err := s.index.put(row); err != nil {
			s.opts.Logger.Error("row was written but cannot be read back", "row", row.Key.String(), "err", err)
		}
	}
	return nil
}

func userKey(name string) intent.Key { return intent.Key{Kind: userKind, Name: name} }

func tokenKey(id string) intent.Key { return intent.Key{Kind: tokenKind, Name: id} }

// userRow is a user as it is stored.
type userRow struct {
	Hash string `json:"hash"` // argon2id, PHC form
	Grants

	created time.Time
}

// tokenRow is a token as it is stored: its SHA-256, never the token.
type tokenRow struct {
	AccessToken
	Sum []byte `json:"sum"`
}

// index is all users and tokens in memory. Tokens are found by their SHA-256, so that the time of
// a look-up says nothing about a token's bytes.
type index struct {
	mu     sync.RWMutex
	users  map[string]userRow
	tokens map[[32]byte]AccessToken
}

func newIndex() index {
	return index{users: map[string]userRow{}, tokens: map[[32]byte]AccessToken{}}
}

func (x *index) put(row intent.Row) error {
	var u userRow
	var t tokenRow
	var err error
	if row.Kind == userKind {
		err = json.Unmarshal(row.Body, &u)
	} else if err = json.Unmarshal(row.Body, &t); err == nil && len(t.Sum) != 32 {
		err = fmt.Errorf("token %s: its sum has %d bytes, expected 32", row.Name, len(t.Sum))
	}
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if row.Kind == userKind {
		u.created = row.Created
		x.users[row.Name] = u
	} else {
		x.tokens[[32]byte(t.Sum)] = t.AccessToken
	}
	return nil
}

func (x *index) remove(key intent.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if key.Kind == userKind {
		delete(x.users, key.Name)
		return
	}
	for sum, t := range x.tokens {
		if t.ID == key.Name {
			delete(x.tokens, sum)
		}
	}
}

func (x *index) user(name string) (userRow, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	u, ok := x.users[name]
	return u, ok
}

// token finds a token by its sum. A session has the grants that its user has now; without its
// user it is none.
func (x *index) token(sum [32]byte) (AccessToken, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t, ok := x.tokens[sum]
	return x.current(t), ok && (!t.Session || x.users[t.User].Hash != "")
}

// current is a token with the grants that it has now. The caller holds mu.
func (x *index) current(t AccessToken) AccessToken {
	if t.Session {
		t.Grants = x.users[t.User].Grants
	}
	return t
}
