package child

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// record is the content of a lock file.
type record struct {
	ID         string  `json:"id"`
	Label      string  `json:"label"`
	Port       int     `json:"port,omitempty"`
	PID        int     `json:"pid,omitempty"` // also the group; 0 = not started yet
	Start      uint64  `json:"start,omitempty"`
	Members    []ident `json:"members,omitempty"` // see Proc.Remember
	Owner      int     `json:"owner"`
	OwnerStart uint64  `json:"owner_start"`
	Boot       string  `json:"boot"`      // start times of different boots cannot be compared
	Namespace  string  `json:"namespace"` // process ids of different namespaces neither
}

// registration is a lock file that we hold. The lock lives as long as we do, whatever ends us; that is what tells
// other runs that the child has an owner.
type registration struct {
	mu   sync.Mutex
	f    *os.File
	path string
	rec  record
}

const (
	lockExt  = ".json"
	draftExt = ".draft"
	block    = 4096
)

// register makes the lock file of a child that is about to be started.
func register(dir string, rec record) (*registration, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	self, err := readProc(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read our own process: %w", err)
	}
	rec.ID = rand.Text()
	rec.Owner, rec.OwnerStart = self.pid, self.start
	rec.Boot, rec.Namespace = boot(), namespace()
	r := &registration{rec: rec, path: filepath.Join(dir, rec.ID+lockExt)}
	// The file gets its final name when it is locked and written, so that Reap never sees one that is neither. Reap
	// also clears drafts away; that it takes one in the moment between creating and locking is what the retry is for.
	for range 3 {
		if err = r.create(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write the lock file: %w", err)
	}
	return r, nil
}

func (r *registration) create() error {
	draft := strings.TrimSuffix(r.path, lockExt) + draftExt
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	r.f = f
	if err = flock(f, unix.LOCK_EX); err == nil {
		if err = r.write(); err == nil {
			err = os.Rename(draft, r.path)
		}
	}
	if err != nil {
		f.Close()
		os.Remove(draft)
	}
	return err
}

// write puts the record into the file, in place: a new file would not have the lock. It is padded to whole blocks so
// that the second write, when the child is running, needs no space that a full disk could refuse.
func (r *registration) write() error {
	b, err := json.Marshal(r.rec)
	if err != nil {
		return err
	}
	pad := block - len(b)%block
	_, err = r.f.WriteAt(append(b, strings.Repeat(" ", pad-1)+"\n"...), 0)
	return err
}

func (r *registration) update(rec record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	r.rec = rec
	if err := r.write(); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

func (r *registration) current() record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec
}

func (r *registration) pid() int { return r.current().PID }

func (r *registration) remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	err := removeFile(r.path)
	r.f.Close()
	r.f = nil
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lock file: %w", err)
	}
	return nil
}

// Reap kills what owners that are gone left running, removes their lock files, and says what it did, one entry per
// child. Children of owners that live are not touched, so runs beside each other do not disturb each other. A folder
// that does not exist has nothing to reap. It waits for what it kills.
func Reap(stateDir string) ([]Reaped, error) {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	var out []Reaped
	var errs []error
	for _, e := range entries {
		path := filepath.Join(stateDir, e.Name())
		switch filepath.Ext(path) {
		case lockExt:
			r, ok, err := reapFile(path)
			if ok {
				out = append(out, r)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("reap %s: %w", path, err))
			}
		case draftExt:
			if f, ok := tryLock(path); ok {
				os.Remove(path)
				f.Close()
			}
		}
	}
	return out, errors.Join(errs...)
}

// reapFile handles one lock file. ok is false when its owner lives, or somebody else has just done it.
func reapFile(path string) (r Reaped, ok bool, err error) {
	f, ok := tryLock(path)
	if !ok {
		return Reaped{}, false, nil
	}
	defer f.Close()
	rec, ok := readRecord(f, path)
	if !ok {
		return Reaped{}, false, nil
	}
	r = Reaped{Label: rec.Label, Owner: rec.Owner, Port: rec.Port}
	if rec.Boot == boot() {
		r.PIDs, err = newFamily(rec, false).kill(killWait)
		if err != nil {
			return r, true, err // the file stays for the next try
		}
	}
	return r, true, removeFile(path)
}

// readRecord reads a lock file that we have locked. ok is false when its owner is alive all the same: it is just
// ending, or the file system has no locks.
func readRecord(f *os.File, path string) (record, bool) {
	id := strings.TrimSuffix(filepath.Base(path), lockExt)
	var rec record
	if err := json.NewDecoder(f).Decode(&rec); err != nil || rec.ID != id {
		// Torn by whatever killed the owner. Its name is enough to find those that carry it.
		return record{ID: id, Label: "unknown program", Boot: boot()}, true
	}
	if rec.Namespace != namespace() {
		// The numbers mean other processes here. The mark in the environment means the same everywhere.
		rec.PID, rec.Start, rec.OwnerStart, rec.Members = 0, 0, 0, nil
		return rec, true
	}
	if rec.Boot == boot() {
		if owner, err := readProc(rec.Owner); err == nil && owner.start == rec.OwnerStart && !owner.dead() {
			return record{}, false
		}
	}
	return rec, true
}

// tryLock opens and locks a file that nobody holds. The lock goes with the file's closing.
func tryLock(path string) (*os.File, bool) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, false
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, false
	}
	return f, true
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func namespace() string {
	s, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return s
}
