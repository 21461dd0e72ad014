package intent

import (
	"errors"

	"github.com/muster-fleet/muster/internal/model"
)

// Check says whether the row is as the write expects it: there or not, and at which
// revision. A difference is a model.Conflict.
func (write Write) Check(exists bool, revision int64) error {
	key := write.Source()
	switch {
	case write.Expect < 0 || exists && write.Expect == revision || !exists && write.Expect == 0:
		return nil
	case !exists:
		return model.Errorf(model.Conflict, "%s was deleted since you read it", key).WithHint("read it again, then repeat your change")
	case write.Expect == 0:
		return model.Errorf(model.Conflict, "%s exists already (revision %d)", key, revision)
	}
	return model.Errorf(model.Conflict, "%s was changed since you read it: it is at revision %d, you had %d", key, revision, write.Expect).
		WithHint("read it again, then repeat your change")
}

// Source is the key of the row that the write finds: another than Key where it moves.
func (write Write) Source() Key {
	key := write.Key
	if write.From != "" {
		key.Name = write.From
	}
	return key
}

// stale makes the Conflict of a write whose revision the caller has stated one that
// only the caller can mend (RFC 9110, 13.1): model.Stale.
func stale(err error) error {
	var said *model.Error
	if !errors.As(err, &said) || said.Class != model.Conflict {
		return err
	}
	again := *said
	again.Class = model.Stale
	return &again
}

// meanwhile is the Conflict of an apply of files: two of them ran at the same time, or
// somebody changed something by hand. Nothing was kept; who applies the newest files again
// reads everything anew.
func meanwhile(err error) error {
	var said *model.Error
	if !errors.As(err, &said) {
		return err
	}
	return model.Errorf(model.Conflict, "somebody else changed something while this ran: %s; nothing was kept", said.Message).
		WithHint("does another pipeline apply the same folder? let one run at a time, then run the newest again; who it was: muster audit")
}
