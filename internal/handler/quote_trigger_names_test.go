package handler

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestCommandsQuoteTriggerNames expects muster commands in messages to quote the names of triggers for a shell.
// A person may paste the muster commands.
func TestCommandsQuoteTriggerNames(t *testing.T) {
	n := Notification{Kind: Opened, Node: "db1", Space: model.DefaultNamespaceName}
	n.SetSource(model.TriggerSource(7, "it's up"), "linux")
	if want := []string{`muster why 'db1/linux:it'\''s up'`, `muster event ack 'db1/linux:it'\''s up' -m "on it"`}; !slices.Equal(n.commands(), want) {
		t.Errorf("%q, want %q", n.commands(), want)
	}
}

// TestDescriptionFollowsOutput expects a message about an open problem to have the description behind the output. A message about the end has the output alone.
func TestDescriptionFollowsOutput(t *testing.T) {
	o := &Sender{}
	n := Notification{Kind: Opened, Node: "db1", Output: "load 5\nlast(//load)>4", Description: "More work\nthan processors.\n"}
	if text := o.messageText(&n, nil).output; text != "load 5\nlast(//load)>4\n\nMore work\nthan processors." {
		t.Errorf("opened: %q", text)
	}
	n.Kind = Closed
	if text := o.messageText(&n, nil).output; text != "load 5\nlast(//load)>4" {
		t.Errorf("closed: %q", text)
	}
}
