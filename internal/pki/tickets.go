package pki

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"time"
)

// ticketDays is how many days a TLS session ticket is good for.
const ticketDays = 3

// TicketKeys are the keys of TLS session tickets: today's first, by which new ones
// are made, then those of the days before. They are derived from the CA's key, so
// that tickets survive a restart; who has that key needs no ticket.
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
