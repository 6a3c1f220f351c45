package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// A folder is one results folder while it is being filled. Until every planned trial is measured it has a journal
// beside the result files: one document per finished trial and per start, each written whole or not at all. A run that
// was ended at any point goes on from the journal; without one a folder is finished and never written again.
type folder struct {
	dir  string
	lock *os.File
}

const (
	journalDir = "journal"
	keyDigits  = 12 // of the run key, in folder names
)

// errBusy is returned when another process fills the same folder.
var errBusy = errors.New("another benchctl is filling this folder")

// found says what findFolder met.
type found int

const (
	fresh    found = iota // nothing yet
	partial               // a run to go on with
	finished              // a run that has everything
)

// findFolder looks for the folder of a run key under root/experiment, in any year. With again, a finished run is left
// alone and the path of a new folder is returned.
func findFolder(root, experiment, runKey string, year int, again bool) (dir string, state found, err error) {
	base := filepath.Join(root, experiment)
	key := runKey[:keyDigits]
	have, err := filepath.Glob(filepath.Join(base, "[0-9][0-9][0-9][0-9]", key+"*"))
	if err != nil {
		return "", fresh, fmt.Errorf("look for %s: %w", base, err)
	}
	newest, n := "", 0
	for _, d := range have {
		if k := attemptOf(filepath.Base(d), key); k > n {
			newest, n = d, k
		}
	}
	switch {
	case n == 0:
		return filepath.Join(base, strconv.Itoa(year), key), fresh, nil
	case isPartial(newest):
		return newest, partial, nil
	case again:
		return filepath.Join(base, strconv.Itoa(year), fmt.Sprintf("%s-%d", key, n+1)), fresh, nil
	}
	return newest, finished, nil
}

// attemptOf is 1 for KEY, n for KEY-n, 0 for anything else.
func attemptOf(name, key string) int {
	if name == key {
		return 1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, key+"-"))
	if err != nil || !strings.HasPrefix(name, key+"-") || n < 2 {
		return 0
	}
	return n
}

func isPartial(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, journalDir))
	if err == nil {
		return true
	}
	_, err = os.Stat(filepath.Join(dir, "run.json"))
	return errors.Is(err, fs.ErrNotExist)
}

// openFolder makes the folder and its journal and takes its lock.
func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(filepath.Join(dir, journalDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the results folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, journalDir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the results folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, errBusy)
	}
	return &folder{dir: dir, lock: f}, nil
}

// close gives the lock back; the journal stays.
func (f *folder) close() error {
	if f.lock == nil {
		return nil
	}
	err := f.lock.Close()
	f.lock = nil
	return err
}

// finish removes the journal: the run has everything.
func (f *folder) finish() error {
	err := os.RemoveAll(filepath.Join(f.dir, journalDir))
	return errors.Join(err, f.close())
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) journal(name string) string { return filepath.Join(f.dir, journalDir, name) }

// write puts one file into the folder, whole or not at all.
func (f *folder) write(name string, data []byte) error {
	p := f.path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return result.WriteFile(p, data)
}

// saveTrial records a finished trial. It is in the journal for good once this returns nil, and not there at all
// otherwise: the document is written last.
func (f *folder) saveTrial(t result.Trial, recs []record.Record) error {
	var b strings.Builder
	if err := record.Write(&b, recs); err != nil {
		return fmt.Errorf("save trial %s: %w", t.ID, err)
	}
	if err := f.write(requestsFile(t.ID), []byte(b.String())); err != nil {
		return fmt.Errorf("save trial %s: %w", t.ID, err)
	}
	return f.saveDoc("trial-"+t.ID+".json", t)
}

func (f *folder) saveDoc(name string, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	if err := result.WriteFile(f.journal(name), b); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return nil
}

// memory is what a journal holds.
type memory struct {
	began  time.Time // when the run began; zero = just now
	trials map[string]result.Trial
	starts []result.Start
}

// load reads the journal. A document that cannot be read counts as absent: its trial is measured again.
func (f *folder) load() (memory, error) {
	m := memory{trials: map[string]result.Trial{}}
	names, err := filepath.Glob(f.journal("*.json"))
	if err != nil {
		return m, fmt.Errorf("read the journal: %w", err)
	}
	sort.Strings(names)
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			return m, fmt.Errorf("read the journal: %w", err)
		}
		switch base := filepath.Base(n); {
		case strings.HasPrefix(base, "trial-"):
			var t result.Trial
			if json.Unmarshal(b, &t) == nil && t.Outcome == result.Measured {
				m.trials[t.ID] = t
			}
		case strings.HasPrefix(base, "start-"):
			var s result.Start
			if json.Unmarshal(b, &s) == nil {
				m.starts = append(m.starts, s)
			}
		case base == "began.json":
			_ = json.Unmarshal(b, &m.began) // unreadable = as if the run began now
		}
	}
	return m, nil
}

func requestsFile(trial string) string { return "requests/" + trial + ".csv.gz" }
