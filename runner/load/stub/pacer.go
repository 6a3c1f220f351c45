package stub

import (
	"container/heap"
	"errors"
	"runtime"
	"sync"
	"time"
)

// errStopped ends the answers that were not finished when the server stopped.
var errStopped = errors.New("the stub was stopped")

// longestSleep bounds how late a new answer is seen by a pacer that sleeps in the kernel.
const longestSleep = time.Millisecond

// pacer sends every token of every answer, from one goroutine: as an engine's step does, and for less CPU than a
// goroutine each, which would be missing from the client on the same machine.
type pacer struct {
	base time.Time

	mu      sync.Mutex
	answers queue
	placed  int // answers so far, for their places in a spread
	stopped bool
	wake    chan struct{} // capacity 1: something was added to an empty queue
}

func newPacer() *pacer { return &pacer{base: time.Now(), wake: make(chan struct{}, 1)} }

func (p *pacer) now() int64 { return int64(time.Since(p.base)) }

// add takes an answer in. Its first token is due First after now, and then at the next step of its mode.
func (p *pacer) add(a *answer, pace Pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		a.ended <- errStopped
		return
	}
	a.due = nextStep(p.now()+int64(pace.First), a.interval, offset(pace, p.placed))
	p.placed++
	heap.Push(&p.answers, a)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// offset is where in an interval a stream's tokens lie: at its start for all, or everywhere. Multiples of the golden
// ratio fill an interval evenly for any number of streams.
func offset(pace Pace, i int) int64 {
	if pace.Mode == Step {
		return 0
	}
	const golden = 0.6180339887498949
	f := float64(i) * golden
	return int64((f - float64(int64(f))) * float64(pace.Interval))
}

// nextStep is the first time at or after t that is offset modulo interval.
func nextStep(t, interval, offset int64) int64 {
	k := (t - offset + interval - 1) / interval
	return k*interval + offset
}

// start runs the pacer until stop is called.
func (p *pacer) start() (stop func()) {
	quit := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // it sleeps in the kernel; the thread ends with the goroutine
		for p.tick(quit) {
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// tick sends what is due, and waits for the next time that something is. It returns false at the end.
func (p *pacer) tick(quit chan struct{}) bool {
	for {
		a := p.take()
		if a == nil {
			break
		}
		more, err := a.send()
		if more {
			a.due += a.interval
			p.put(a)
			continue
		}
		a.ended <- err
	}
	select {
	case <-quit:
		p.abandon()
		return false
	default:
	}
	wait, empty := p.untilNext()
	if empty {
		select {
		case <-quit:
		case <-p.wake:
		}
		return true
	}
	pause(min(wait, longestSleep))
	return true
}

// take removes the answer that is due first, if it is due.
func (p *pacer) take() *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 || p.answers[0].due > p.now() {
		return nil
	}
	return heap.Pop(&p.answers).(*answer)
}

func (p *pacer) put(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.answers, a)
}

func (p *pacer) untilNext() (wait time.Duration, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 {
		return 0, true
	}
	return time.Duration(p.answers[0].due - p.now()), false
}

func (p *pacer) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, a := range p.answers {
		a.ended <- errStopped
	}
	p.answers = nil
}

// queue is a heap of answers by the time at which they are due.
type queue []*answer

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*answer)) }
func (q *queue) Pop() any {
	old := *q
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return a
}
