package join

import (
	"encoding/base64"
	"net"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

const tokenPrefix = "mlj1."

// Token authorizes other loaders to join one run: the address of the lead, the digest of its certificate, and a secret.
type Token struct {
	Address string   // host:port
	Sum     [32]byte // SHA-256 of the lead's certificate
	Secret  [32]byte
}

// authorization returns the header of each request.
func (t Token) authorization() string {
	return "Bearer " + base64.RawURLEncoding.EncodeToString(t.Secret[:])
}

// String returns the token as text, for the command line.
func (t Token) String() string {
	b := append(t.Sum[:len(t.Sum):len(t.Sum)], t.Secret[:]...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, t.Address...))
}

// ParseToken parses the text that String returns.
func ParseToken(text string) (t Token, err error) {
	const hint = "paste the whole line that muster load run --loaders N printed: muster load join mlj1.…"
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	if !ok {
		return t, model.Errorf(model.Invalid, "the token of a load run begins with %q", tokenPrefix).WithHint(hint)
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(b) <= 64 {
		return t, model.Errorf(model.Invalid, "the token is cut short or mistyped").WithHint(hint)
	}
	copy(t.Sum[:], b)
	copy(t.Secret[:], b[32:])
	t.Address = string(b[64:])
	if _, _, err := net.SplitHostPort(t.Address); err != nil {
		return t, model.Errorf(model.Invalid, "the token is cut short or mistyped").WithHint(hint)
	}
	return t, nil
}
