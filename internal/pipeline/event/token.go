package event

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/model"
)

// A page token is a place in one incarnation of the journal: numbers mean nothing in
// another, whose nodes and checks may have other ids.
const (
	tokenVersion = 1
	tokenBytes   = 1 + 8 + 1 + 1 + 4 + 4
)

func token(at place, log uint64) string {
	b := make([]byte, 0, tokenBytes)
	b = append(b, tokenVersion)
	b = binary.BigEndian.AppendUint64(b, log)
	b = append(b, byte(at.severity), byte(at.partition))
	b = binary.BigEndian.AppendUint32(b, uint32(at.node))
	b = binary.BigEndian.AppendUint32(b, uint32(at.check))
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(text string, log uint64) (place, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != tokenBytes || b[0] != tokenVersion || b[9] > byte(model.Disaster) {
		return place{}, model.Errorf(model.Invalid, "the page token is not one of ours").
			WithHint("list again without it")
	}
	if binary.BigEndian.Uint64(b[1:]) != log {
		return place{}, model.Errorf(model.Conflict, "the page token is of another life of this server's data").
			WithHint("list again without it")
	}
	return place{
		severity: int(b[9]), partition: int(b[10]),
		node:  model.NodeID(binary.BigEndian.Uint32(b[11:])),
		check: model.CheckID(binary.BigEndian.Uint32(b[15:])),
	}, nil
}
