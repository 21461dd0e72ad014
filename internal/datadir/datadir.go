// Package datadir knows the data folder of a server: its lock, its owner, the folders in it, and the
// hints for errors of its file system. The server and the commands that work on a stopped server's
// folder share it.
package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// lockFile is the file in the data folder whose lock keeps a second process from using the folder.
const lockFile = "LOCK"

// Lock creates the data folder if necessary, and locks the folder for the process. The lock ends when the returned
// value is closed. If another process has the lock, the error has the class Conflict.
func Lock(dir string) (io.Closer, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	held, err := disk.OS{}.Lock(filepath.Join(dir, lockFile))
	var other *disk.LockedError
	if errors.As(err, &other) {
		return nil, model.Errorf(model.Conflict, "data folder %q is in use by %s", dir, other.Holder()).
			WithHint("check whether the server already runs: muster status; else stop that process, or choose another folder with --data")
	}
	return held, err
}

// LockForRepair locks the data folder of a stopped server, for a repair command. A folder that is missing or empty gives
// an error.
func LockForRepair(dir string) (io.Closer, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, model.Errorf(model.NotFound, "%q is not the data folder of a server", dir).WithHint("name the data folder: --data DIR")
	}
	if err != nil {
		return nil, err
	}
	return Lock(dir)
}

// makeFolder creates a folder and its missing parents, and syncs the parents to the disk.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	up := filepath.Dir(dir)
	if err := makeFolder(up); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.OS{}.SyncDir(up)
}

// ExplainFileError adds to a file-system error the cause and a shell command that repairs the cause. The cause
// is the owner of the file or the state of the disk. It returns other errors unchanged.
func ExplainFileError(err error, data string) error {
	var path *fs.PathError
	var explained *model.Error
	if err == nil || errors.As(err, &explained) || !errors.As(err, &path) {
		return err
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return model.Errorf(model.Unavailable, "%w", err).
			WithHint("the kernel makes a file system read-only when its disk fails: dmesg | tail; then mount -o remount,rw, or choose another folder with --data")
	case errors.Is(err, syscall.EIO):
		return model.Errorf(model.Unavailable, "%w", err).
			WithHint("the disk or its file system fails (dmesg | tail shows the errors): copy the readable files to another disk now")
	case errors.Is(err, fs.ErrPermission):
		owner, info := nearestExisting(path.Path)
		self := userName(os.Geteuid())
		refused := model.Errorf(model.Forbidden, "%w: %q belongs to user %s, this process runs as user %s", err, owner, userOf(info), self)
		if folder, _ := os.Stat(data); userOf(folder) == self { // root has copied files into a folder of the server's user
			return refused.WithHint("change the owner of the folder to %s: chown -R %s: %s", self, self, data)
		}
		return refused.WithHint("run the command as that user (sudo -u %s muster …), or change the owner: chown -R %s %s", userOf(info), self, data)
	}
	return err
}

// nearestExisting returns the path itself or its nearest existing parent folder, with the file information of
// the result.
func nearestExisting(path string) (string, fs.FileInfo) {
	for {
		info, err := os.Stat(path)
		up := filepath.Dir(path)
		if err == nil || up == path {
			return path, info
		}
		path = up
	}
}

// userOf returns the name of the user to whom a file belongs, from the file information.
func userOf(info fs.FileInfo) string {
	if info == nil {
		return "another user"
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return userName(int(stat.Uid))
	}
	return "another user"
}

// userName returns the name of a user id, or the number if the id is unknown
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// Snapshots returns the path of the folder with snapshots of the server's state in memory.
func Snapshots(cfg *config.Server) string { return filepath.Join(cfg.Data, "snapshots") }

// Series returns the path of the folder with the time series of items' numbers.
func Series(cfg *config.Server) string { return filepath.Join(cfg.Data, "series") }

// RemoteWrite returns the path of the folder for unsent samples of Prometheus remote write. It holds samples that are
// not sent yet.
func RemoteWrite(cfg *config.Server) string { return filepath.Join(cfg.Data, "remote-write") }

// Journal returns the folder of the journal.
func Journal(cfg *config.Server) string {
	if cfg.Journal != "" {
		return cfg.Journal
	}
	return filepath.Join(cfg.Data, "journal")
}

// IntentDB returns the file path or PostgreSQL URL of the database with declared resources. Another word for declared
// resources is intent.
func IntentDB(cfg *config.Server) string {
	return cmp.Or(cfg.IntentDB, filepath.Join(cfg.Data, "intent.db"))
}

// HistoryDB returns the file path or PostgreSQL URL of the history database.
func HistoryDB(cfg *config.Server) string {
	return cmp.Or(cfg.HistoryDB, filepath.Join(cfg.Data, "history.db"))
}

// ComplianceDB returns the file path or PostgreSQL URL of the database with the history of directive runs. It is a
// file of its own, or the PostgreSQL database of history.
func ComplianceDB(cfg *config.Server) string {
	if strings.Contains(cfg.HistoryDB, "://") {
		return cfg.HistoryDB
	}
	return filepath.Join(cfg.Data, "compliance.db")
}

// TextDB returns the path of the file with the text and log values of items.
func TextDB(cfg *config.Server) string { return filepath.Join(cfg.Data, "text.db") }

// JournalOptions returns the size limits and other options with which the server opens the journal. The server
// and the commands that repair the journal use the same options.
func JournalOptions(cfg *config.Server) journal.Options {
	return journal.Options{
		Budget: int64(cfg.JournalBudget), Reserve: int64(cfg.JournalReserve), Partitions: model.Partitions,
		Stores:        map[string]int{"snapshots": snapshot.FormatVersion, "partitions": shard.SnapshotVersion, "events": event.SectionVersion},
		RepairCommand: DoctorCommand(cfg, "repair"),
	}
}

// DoctorCommand returns a muster doctor command line for the server's data folder. The command is to be run while the
// server is stopped.
func DoctorCommand(cfg *config.Server, verb string) string {
	command := "muster doctor " + verb + " --data " + cfg.Data
	for _, flag := range [...]struct{ name, value string }{{"journal", cfg.Journal}, {"intent-db", cfg.IntentDB}, {"history-db", cfg.HistoryDB}} {
		switch {
		case flag.value == "":
		case strings.Contains(flag.value, "://"): // may hold a password
			command += " --" + flag.name + " URL"
		default:
			command += " --" + flag.name + " " + flag.value
		}
	}
	return command
}

// BecomeOwner switches a process from user root to the owner of the data folder. Then the server can read the
// files that the process writes. A process of another user stays unchanged.
func BecomeOwner(data string) error {
	info, err := os.Stat(data)
	if err != nil || os.Geteuid() != 0 {
		return nil // the code that opens the folder reports that the folder is missing
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	name := userOf(info)
	for _, err := range []error{syscall.Setgroups([]int{int(owner.Gid)}), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid))} {
		if err != nil {
			return fmt.Errorf("switch to user %s, the owner of %s: %w", name, data, err)
		}
	}
	if _, err := os.ReadDir(data); err != nil {
		return model.Errorf(model.Forbidden, "%s belongs to user %s, who cannot open a parent folder: %w", data, name, err).
			WithHint("move the data folder to /var/lib/muster, or make root its owner: chown -R root: %s", data)
	}
	return nil
}
