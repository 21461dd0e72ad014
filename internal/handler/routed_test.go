package handler

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A route tells of a group under one problem again and again: each mail has an id of its own,
// else the second one is thrown away as the first, and all are of one thread.
func TestGroupMails(t *testing.T) {
	out := New(Options{})
	seen := map[string]bool{}
	for _, key := range []string{"p1/opened/default/mail/default/on-call/1", "p2/opened/default/mail/default/on-call/2"} {
		m := notifications()[Opened].message(t)
		m.Key = key
		msg, err := out.mail(&model.Email{From: "muster@example.org", To: []string{"ann@example.org"}}, m, out.words(m.Note, nil))
		if err != nil {
			t.Fatal(err)
		}
		id := msg.GetMessageID()
		if seen[id] {
			t.Errorf("two mails have the id %s", id)
		}
		seen[id] = true
		if thread := msg.GetGenHeader("References"); len(thread) != 1 || thread[0] != "<01J9ZK3T7Q8V.opened@example.org>" {
			t.Errorf("thread %q", thread)
		}
	}
}
