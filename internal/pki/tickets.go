package pki

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"time"
)

// ticketDays is the lifetime of a TLS session ticket, in days.
const ticketDays = 3

// TicketKeys returns the keys of TLS session tickets: today's first, for new tickets, then the keys of
// the days before. They derive from the CA's key, so tickets survive a restart.
func (a *Authority) TicketKeys(now time.Time) [][32]byte {
	secret, err := a.caKey.Bytes()
	if err != nil {
		panic("BUG: CA key cannot be encoded: " + err.Error())
	}
	keys := make([][32]byte, ticketDays)
	for i := range keys {
		day := now.UTC().AddDate(0, 0, -i).Format(time.DateOnly)
		key, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprint("muster TLS session tickets of ", day), 32)
		if err != nil {
			panic("BUG: derive ticket key: " + err.Error())
		}
		copy(keys[i][:], key)
	}
	return keys
}
