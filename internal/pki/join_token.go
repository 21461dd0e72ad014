package pki

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

const tokenPrefix = "mj1."

// Token is a join token, the text by which the server admits a new machine. The text begins with mj1. and contains CA,
// secret and addresses. It tells the agent the server and the trusted CA before anything is sent.
type Token struct {
	Addresses []string // host:port, in order of preference
	CA        [32]byte // SHA-256 of the CA certificate
	Secret    [32]byte
	Expiry    time.Time // zero: never
}

// String returns the text of a join token for people to copy. It has the CA, the secret, the expiry and the addresses
// of the server.
func (t Token) String() string {
	b := append(t.CA[:len(t.CA):len(t.CA)], t.Secret[:]...)
	var expiry int64
	if !t.Expiry.IsZero() {
		expiry = t.Expiry.Unix()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(expiry))
	b = append(b, strings.Join(t.Addresses, ",")...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken parses the text of a join token that a person has copied. The error names the fault.
func ParseToken(text string) (Token, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	if !ok {
		return Token{}, model.Errorf(model.Invalid, "a join token begins with %q", tokenPrefix).
			WithHint("on the server, create a token: muster node token")
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(b) <= 72 {
		return Token{}, model.Errorf(model.Invalid, "the join token is incomplete or mistyped").
			WithHint("copy the complete line that muster node token printed")
	}
	var t Token
	copy(t.CA[:], b)
	copy(t.Secret[:], b[32:])
	if expiry := int64(binary.BigEndian.Uint64(b[64:])); expiry != 0 {
		t.Expiry = time.Unix(expiry, 0).UTC()
	}
	t.Addresses = strings.Split(string(b[72:]), ",")
	return t, nil
}

// JoinToken is what the server stores about a join token, with only a hash of its secret.
type JoinToken struct {
	ID        string            `json:"id"`   // derived from the secret, not secret
	Hash      []byte            `json:"hash"` // SHA-256 of the secret
	Namespace string            `json:"namespace"`
	Groups    []string          `json:"groups,omitempty"` // for the nodes that join with it
	Labels    map[string]string `json:"labels,omitempty"`
	Lifecycle *model.Lifecycle  `json:"lifecycle,omitempty"` // for the nodes
	// Replace lets a machine replace a node of the requested name, if that has no session. Node,
	// where set, is the only node that this token may replace.
	Replace bool      `json:"replace,omitempty"`
	Node    uuid.UUID `json:"node,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	MaxUses int       `json:"maxUses,omitempty"` // zero: no limit
	Uses    int       `json:"uses"`
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Note    string    `json:"note,omitempty"`
	Stored  bool      `json:"-"` // read from the store, which counts uses
}

// NewToken creates a join token, and returns the token with the record that the server keeps.
func (a *Authority) NewToken(addresses []string, keep JoinToken) (Token, JoinToken, error) {
	if len(addresses) == 0 {
		return Token{}, JoinToken{}, errors.New("create a join token: no address for agents is configured")
	}
	for _, address := range addresses {
		if address == "" || strings.ContainsAny(address, ", ") {
			return Token{}, JoinToken{}, fmt.Errorf("create a join token: invalid address %q", address)
		}
	}
	t := Token{Addresses: addresses, CA: a.CASum(), Expiry: keep.Expires}
	if _, err := rand.Read(t.Secret[:]); err != nil {
		return Token{}, JoinToken{}, fmt.Errorf("create a join token: %w", err)
	}
	keep.ID, keep.Hash = tokenID(t.Secret[:]), secretHash(t.Secret[:])
	keep.Created, keep.Uses = a.now().UTC(), 0
	return t, keep, nil
}

// tokenID computes the public id of a join token from its secret. The id does not help to guess the secret: it comes
// from another hash than the one that the server compares.
func tokenID(secret []byte) string {
	sum := sha256.Sum256(append([]byte("muster join token id\n"), secret...))
	return hex.EncodeToString(sum[:8])
}

// secretHash returns the hash of a join token's secret that the server stores.
func secretHash(secret []byte) []byte {
	sum := sha256.Sum256(append([]byte("muster join token\n"), secret...))
	return sum[:]
}

// verify returns an error if the secret is wrong or the token is expired or used up. It compares the secret in
// constant time.
func (t *JoinToken) verify(secret []byte, now time.Time) error {
	switch {
	case subtle.ConstantTimeCompare(t.Hash, secretHash(secret)) != 1:
		return errUnknownToken()
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return model.Errorf(model.Unauthenticated, "join token %s expired at %s", t.ID, t.Expires.Format(time.RFC3339)).
			WithHint("on the server, create a new token: muster node token")
	}
	return t.CheckUses()
}

// CheckUses returns an error if the token has no uses left.
func (t *JoinToken) CheckUses() error {
	if t.MaxUses > 0 && t.Uses >= t.MaxUses {
		return model.Errorf(model.Unauthenticated, "join token %s was used %d times, its limit", t.ID, t.Uses).
			WithHint("on the server, create a new token: muster node token")
	}
	return nil
}

// errNoToken is the cause of errUnknownToken's errors.
var errNoToken = errors.New("the join token does not exist")

// errUnknownToken returns the error for a join token that is not stored on the server.
func errUnknownToken() error {
	e := model.Errorf(model.Unauthenticated, "the join token is unknown to the server").
		WithHint("on the server, create a token: muster node token")
	e.Cause = errNoToken
	return e
}

// Tokens is the interface that finds join tokens by their id. Registrar.Register counts a use together with the node,
// so a failed registration uses nothing.
type Tokens interface {
	// Find returns the token with this id, with Stored set, or a model.NotFound error.
	Find(ctx context.Context, id string) (JoinToken, error)
}
