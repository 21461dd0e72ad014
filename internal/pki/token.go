package pki

import (
	"context"
	"errors"
	"time"
)

// Token lets machines enrol: mj1.<base64url>. It tells the agent where the server
// is and which CA to trust before anything is sent.
type Token struct {
	Addresses []string // host:port, in order of preference
	CA        [32]byte // SHA-256 of the CA certificate
	Secret    [32]byte
	Expiry    time.Time // zero: never
}

func (t Token) String() string { return "" }

// ParseToken reads what String wrote; the error says what is wrong with it.
func ParseToken(text string) (Token, error) { return Token{}, errors.New("not yet") }

// JoinToken is what the server keeps of a token: never the secret, only its hash.
type JoinToken struct {
	ID        string            `json:"id"`   // derived from the secret, not secret
	Hash      []byte            `json:"hash"` // SHA-256 of the secret
	Namespace string            `json:"namespace"`
	Groups    []string          `json:"groups,omitempty"` // given to the nodes that join with it
	Labels    map[string]string `json:"labels,omitempty"`
	Expires   time.Time         `json:"expires,omitzero"`
	MaxUses   int               `json:"maxUses,omitempty"` // zero: no limit
	Uses      int               `json:"uses"`
	Created   time.Time         `json:"created"`
	By        string            `json:"by"`
	Note      string            `json:"note,omitempty"`
}

// Tokens keeps join tokens. Use is atomic: of two machines with the last use of a
// token, one is refused.
type Tokens interface {
	Create(ctx context.Context, t JoinToken) error
	List(ctx context.Context) ([]JoinToken, error)
	Delete(ctx context.Context, id string) error
	// Use finds the token by id, calls check with it and counts one use if check
	// returns nil.
	Use(ctx context.Context, id string, check func(JoinToken) error) (JoinToken, error)
}

// NewToken makes a token and what the server keeps of it.
func (a *Authority) NewToken(addresses []string, keep JoinToken) (Token, JoinToken, error) {
	return Token{}, JoinToken{}, errors.New("not yet")
}
