package fleet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names makes hashes of names: the same key makes the same ones, and without it nobody can
// try names out.
type Names struct{ Key []byte }

// of is a name of its own for a list of names.
func (n Names) of(kind string, list ...string) string {
	mac := hmac.New(sha256.New, n.Key)
	mac.Write([]byte(kind + "\x00" + strings.Join(list, "\x00")))
	return kind + "-" + hex.EncodeToString(mac.Sum(nil)[:5])
}
