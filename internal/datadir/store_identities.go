package datadir

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// Stores has the server's databases and journal, to detect that one was replaced by another copy. The databases
// hold declared resources and history. The journal's last mark names them, so that a store that was lost,
// replaced, or restored from an older copy is found.
type Stores struct {
	Config  *config.Server
	Journal *journal.Log
	Intent  intent.Store
	History history.Store
	// Authority is the identity of the open certificate authority (pki.FolderIdentity); it is set before the first Mark.
	Authority uint64
}

// pkiFolder returns the folder of the certificate authority.
func (s *Stores) pkiFolder() string { return filepath.Join(s.Config.Data, "pki") }

// Identities returns the ids and versions of the databases and of the CA, to record in the journal. revision is the intent
// revision in force.
func (s *Stores) Identities(revision int64) wire.IntentRecord {
	return wire.IntentRecord{
		Revision: revision, Incarnation: s.Journal.Incarnation().ID, Intent: s.Intent.Identity(), LastID: s.Intent.LastID(),
		History: s.History.Identity(), Recorded: s.History.Recorded(), Authority: s.Authority,
	}
}

// Differences returns a sentence for each database or CA that is not the one recorded in the journal. An older
// copy of a database also counts; the comparison is with the ids and versions that the journal has recorded. A
// mark of an earlier incarnation refuses nothing: the operator has accepted the stores.
func (s *Stores) Differences(ctx context.Context, last wire.IntentRecord) (list []string, err error) {
	life, err := s.Intent.Incarnation(ctx)
	if err != nil {
		return nil, err
	}
	if life != 0 && !s.Journal.HasIncarnation(life) {
		list = append(list, fmt.Sprintf("%s belongs to another journal than %s", IntentDB(s.Config), Journal(s.Config)))
	}
	if last.Incarnation != s.Journal.Incarnation().ID {
		return list, nil
	}
	revision, err := s.Intent.Revision(ctx)
	if err != nil {
		return nil, err
	}
	authority, err := pki.FolderIdentity(s.pkiFolder())
	if err != nil {
		return nil, err
	}
	for _, store := range [...]struct {
		file          string
		is, was       uint64 // identity
		reached, seen uint64
		unit          string
	}{
		{IntentDB(s.Config), s.Intent.Identity(), last.Intent, uint64(revision), uint64(last.Revision), "revision"},
		{HistoryDB(s.Config), s.History.Identity(), last.History, s.History.Recorded(), last.Recorded, "transaction"},
		{s.pkiFolder(), authority, last.Authority, 0, 0, ""},
	} {
		switch {
		case store.was == 0: // the mark was written before the store existed
		case store.is == 0:
			list = append(list, store.file+" is missing or incomplete")
		case store.is != store.was:
			list = append(list, store.file+" is new or belongs to another server: its journal id differs from the id of the journal")
		case store.reached < store.seen:
			list = append(list, fmt.Sprintf("%s is older than the journal, or its last rows are lost: the file ends at %s %d, the journal at %d", store.file, store.unit, store.reached, store.seen))
		}
	}
	if id := s.Intent.LastID(); len(list) == 0 && id < last.LastID {
		list = append(list, fmt.Sprintf("%s has lost ids: the highest id is %d, in the journal %d", IntentDB(s.Config), id, last.LastID))
	}
	return list, nil
}

// RefuseReplaced returns an error if a database or the CA is not the one recorded in the journal.
func (s *Stores) RefuseReplaced(ctx context.Context, last wire.IntentRecord) error {
	list, err := s.Differences(ctx, last)
	if err != nil || len(list) == 0 {
		return err
	}
	return model.Errorf(model.Conflict, "%s", strings.Join(list, "; ")).
		WithHint("put the right file back, or restore the whole data folder from a backup; to continue with these files: %s", DoctorCommand(s.Config, "repair"))
}

// RecordIncarnation stores in the databases the id of the present journal, which changes after a restore. A
// restored journal has a new id. With a new incarnation the intent passes over ids and revisions of the last
// mark, and a history that is older than the mark withholds what may have been sent before unknownUntil.
func (s *Stores) RecordIncarnation(ctx context.Context, last wire.IntentRecord) (unknownUntil time.Time, err error) {
	incarnation := s.Journal.Incarnation().ID
	if err := s.Intent.RecordIncarnation(ctx, incarnation, intent.JournaledRevision{Revision: last.Revision, LastID: last.LastID}); err != nil {
		return time.Time{}, err
	}
	var lost time.Time
	if last.History != 0 && (last.History != s.History.Identity() || last.Recorded > s.History.Recorded()) {
		lost = time.Unix(0, s.Journal.Times().Received)
	}
	return s.History.RecordIncarnation(ctx, incarnation, lost)
}
