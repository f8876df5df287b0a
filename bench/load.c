/* The load generator: sends a ring of encoded frames over many connections; checks, counts and times the responses.
 *
 *   load drive PORT PID CONNECTIONS IN_FLIGHT SECONDS RING   sends, and prints the results as JSON
 *   load answer BODY_SIZE                                    prints a port, and answers any request there
 *
 * RING: uint32 count; then for each frame uint32 size, offset of its opaque, offset of its key counter (0: none), and
 * the frame. Integers are in the machine's byte order. An opaque has seven digits, or four bytes in a binary header; it
 * is replaced by the position of the request in its pipeline. The key counter has eight hexadecimal digits and is
 * replaced, so that no two messages of a run have the same key. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define OPAQUE_FIRST 1000000
#define SILENCE_MILLIS 30000
#define BUFFER_SIZE (17 << 20)

typedef struct { uint32_t size, opaque_at, key_at; const unsigned char *data; } Frame;
typedef struct { int socket, unanswered; size_t held; unsigned char *in; double *sent_at; } Pipeline;

static Frame *frames;
static uint32_t frame_count, next_frame, next_key;
static uint64_t answered, refused, empty_pulls, body_bytes;
static float *latencies;
static uint64_t latencies_max;
static char refusal[256];

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wrong(const char *what, const unsigned char *frame, size_t size) {
    fprintf(stderr, "load: %s: ", what);
    fwrite(frame, 1, size < 500 ? size : 500, stderr);
    fputc('\n', stderr);
    exit(2);
}

static double now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) fail("clock");
    return time.tv_sec + time.tv_nsec / 1e9;
}

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static void put_big_endian(unsigned char *at, uint32_t value) {
    at[0] = value >> 24, at[1] = value >> 16, at[2] = value >> 8, at[3] = value;
}

static void put_digits(unsigned char *at, uint32_t value, int count, uint32_t base) {
    while (count--) at[count] = "0123456789ABCDEF"[value % base], value /= base;
}

static void read_ring(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fread(&frame_count, 4, 1, file) != 1) fail(path);
    frames = calloc(frame_count, sizeof *frames);
    for (uint32_t index = 0; index < frame_count; index++) {
        if (fread(&frames[index], 4, 3, file) != 3) fail(path);
        unsigned char *data = malloc(frames[index].size);
        if (fread(data, 1, frames[index].size, file) != frames[index].size) fail(path);
        frames[index].data = data;
    }
    fclose(file);
}

static int connected(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return made;
}

static void send_all(int socket, const unsigned char *data, size_t size) {
    while (size) {
        ssize_t sent = send(socket, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) fail("send");
        data += sent, size -= sent;
    }
}

/* Appends the next frame of the ring to `out`, with this opaque and the next key. */
static size_t put_request(unsigned char *out, uint32_t opaque) {
    Frame *frame = &frames[next_frame];
    if (++next_frame == frame_count) next_frame = 0;
    memcpy(out, frame->data, frame->size);
    if (frame->data[4]) put_big_endian(out + frame->opaque_at, opaque);
    else put_digits(out + frame->opaque_at, opaque, 7, 10);
    if (frame->key_at) put_digits(out + frame->key_at, next_key++, 8, 16);
    return frame->size;
}

/* Whether a response says that a pull found no message (PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY). Consumers at the end of
 * a queue or with a rare tag get it all the time, so it counts as an answer. No other request gets these codes. */
static int is_empty_pull(int code) {
    return code == 19 || code == 20;
}

/* Reads code and opaque of a response. */
static void read_header(const unsigned char *frame, uint32_t size, int *code, uint32_t *opaque) {
    uint32_t header_size = big_endian(frame + 4) & 0xFFFFFF;
    if (header_size > size - 4) wrong("no header", frame, size);
    const unsigned char *header = frame + 8;
    if (frame[4]) {
        *code = (int16_t)(header[0] << 8 | header[1]);
        *opaque = big_endian(header + 5);
    } else {
        const char *code_at = memmem(header, header_size, "\"code\":", 7);
        const char *opaque_at = memmem(header, header_size, "\"opaque\":", 9);
        if (!code_at || !opaque_at) wrong("no code or opaque", frame, size);
        *code = atoi(code_at + 7);
        *opaque = strtoul(opaque_at + 9, NULL, 10);
    }
    if (*code && !is_empty_pull(*code) && !refusal[0]) {
        uint32_t shown = header_size < sizeof refusal - 1 ? header_size : sizeof refusal - 1;
        for (uint32_t at = 0; at < shown; at++)
            refusal[at] = header[at] < 32 || header[at] > 126 || header[at] == '"' || header[at] == '\\' ? ' ' : header[at];
    }
    body_bytes += size - 4 - header_size;
}

/* Processes the complete responses of a pipeline, and sends a new request for each until the time is over. */
static void take_answers(Pipeline *pipeline, uint32_t first_opaque, int in_flight, int is_over, unsigned char *out) {
    double time = now(CLOCK_MONOTONIC);
    size_t at = 0, out_size = 0;
    while (pipeline->held - at >= 8) {
        uint32_t size = big_endian(pipeline->in + at);
        if (size + 4 > BUFFER_SIZE) wrong("answer too long", pipeline->in + at, pipeline->held - at);
        if (pipeline->held - at < size + 4) break;
        int code;
        uint32_t opaque;
        read_header(pipeline->in + at, size, &code, &opaque);
        uint32_t place = opaque - first_opaque;
        if (place >= (uint32_t)in_flight || !pipeline->sent_at[place])
            wrong("an answer to nothing that was asked", pipeline->in + at, size + 4);
        if (code && !is_empty_pull(code)) refused++;
        else {
            if (code) empty_pulls++;
            if (answered == latencies_max) latencies = realloc(latencies, sizeof *latencies * (latencies_max *= 2));
            latencies[answered++] = time - pipeline->sent_at[place];
        }
        at += size + 4;
        if (is_over) pipeline->sent_at[place] = 0, pipeline->unanswered--;
        else out_size += put_request(out + out_size, opaque), pipeline->sent_at[place] = -1;
    }
    memmove(pipeline->in, pipeline->in + at, pipeline->held - at);
    pipeline->held -= at;
    if (out_size) {
        time = now(CLOCK_MONOTONIC);
        for (int place = 0; place < in_flight; place++)
            if (pipeline->sent_at[place] < 0) pipeline->sent_at[place] = time;
        send_all(pipeline->socket, out, out_size);
    }
}

static int by_size(const void *one, const void *other) {
    float difference = *(const float *)one - *(const float *)other;
    return difference < 0 ? -1 : difference > 0;
}

static void drive(int port, int pid, int connections, int in_flight, double seconds) {
    uint32_t size_max = 0;
    for (uint32_t index = 0; index < frame_count; index++)
        if (frames[index].size > size_max) size_max = frames[index].size;
    unsigned char *out = malloc((size_t)size_max * in_flight);
    Pipeline *pipelines = calloc(connections, sizeof *pipelines);
    latencies = malloc(sizeof *latencies * (latencies_max = 1 << 20));
    int poll = epoll_create1(0), unanswered = connections;
    clockid_t server_clock;
    if (clock_getcpuclockid(pid, &server_clock)) fail("CPU clock of the server");
    for (int index = 0; index < connections; index++) {
        Pipeline *pipeline = &pipelines[index];
        *pipeline = (Pipeline){connected(port), in_flight, 0, malloc(BUFFER_SIZE), calloc(in_flight, sizeof(double))};
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, pipeline->socket, &event)) fail("epoll");
    }
    double started = now(CLOCK_MONOTONIC), deadline = started + seconds;
    double server_cpu = now(server_clock), own_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int index = 0; index < connections; index++) {
        size_t out_size = 0;
        for (int place = 0; place < in_flight; place++) {
            out_size += put_request(out + out_size, OPAQUE_FIRST + index * in_flight + place);
            pipelines[index].sent_at[place] = now(CLOCK_MONOTONIC);
        }
        send_all(pipelines[index].socket, out, out_size);
    }
    while (unanswered) {
        struct epoll_event events[256];
        int count = epoll_wait(poll, events, 256, SILENCE_MILLIS);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("no answer for 30 s");
        for (int number = 0; number < count; number++) {
            int index = events[number].data.u32;
            Pipeline *pipeline = &pipelines[index];
            ssize_t received = recv(pipeline->socket, pipeline->in + pipeline->held, BUFFER_SIZE - pipeline->held, 0);
            if (received <= 0) fail("the server closed a connection under load");
            pipeline->held += received;
            int is_over = now(CLOCK_MONOTONIC) >= deadline;
            take_answers(pipeline, OPAQUE_FIRST + index * in_flight, in_flight, is_over, out);
            if (is_over && !pipeline->unanswered) pipeline->unanswered = -1, unanswered--;
        }
    }
    double taken = now(CLOCK_MONOTONIC) - started;
    server_cpu = now(server_clock) - server_cpu, own_cpu = now(CLOCK_PROCESS_CPUTIME_ID) - own_cpu;
    qsort(latencies, answered, sizeof *latencies, by_size);
    double p50 = answered ? latencies[answered / 2] : 0, p99 = answered ? latencies[answered * 99 / 100] : 0;
    printf("{\"answered\":%lu,\"refused\":%lu,\"refusal\":\"%s\",\"empty_pulls\":%lu,\"body_bytes\":%lu,\"seconds\":%.6f,"
           "\"server_cpu_seconds\":%.6f,\"generator_cpu_seconds\":%.6f,\"p50\":%.9f,\"p99\":%.9f}\n",
           answered, refused, refusal, empty_pulls, body_bytes, taken, server_cpu, own_cpu, p50, p99);
}

/* A server that stores nothing, to measure the generator: answers each request, whether its header is JSON or binary,
 * with a JSON header, the opaque of the request and a body. */
static void answer(uint32_t body_size) {
    static unsigned char in[1 << 16], held[1024][1 << 16];
    static uint32_t held_size[1024];
    const char *text = "{\"code\":0,\"extFields\":{\"queueId\":\"0\",\"TRACE_ON\":\"true\",\"MSG_REGION\":\"DefaultRegion\","
                       "\"transactionId\":\"7F00000151F1DABDB9114D35C0770000\",\"msgId\":\"7F00000100002A9F0000000000000000\","
                       "\"queueOffset\":\"1000\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":1000000,"
                       "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}";
    uint32_t header_size = strlen(text), size = 8 + header_size + body_size;
    uint32_t opaque_at = 8 + (strstr(text, "1000000") - text);
    unsigned char *frame = calloc(1, size), *out = malloc((size_t)size * 1024);
    put_big_endian(frame, size - 4), put_big_endian(frame + 4, header_size), memcpy(frame + 8, text, header_size);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), one = 1;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &address_size);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    printf("%d\n", ntohs(address.sin_port)), fflush(stdout);
    for (;;) {
        struct epoll_event events[256];
        int count = epoll_wait(poll, events, 256, -1);
        for (int number = 0; number < count; number++) {
            int from = events[number].data.fd;
            if (from == listener) {
                event.data.fd = accept(listener, NULL, NULL);
                if (event.data.fd >= 1024) exit(3);
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                held_size[event.data.fd] = 0, epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            ssize_t received = recv(from, in, sizeof in - held_size[from], 0);
            if (received <= 0) { close(from); continue; }
            memcpy(held[from] + held_size[from], in, received), held_size[from] += received;
            uint32_t at = 0;
            size_t out_size = 0;
            while (held_size[from] - at >= 8 && held_size[from] - at >= big_endian(held[from] + at) + 4) {
                const unsigned char *asked = held[from] + at;
                memcpy(out + out_size, frame, size);
                if (asked[4]) put_digits(out + out_size + opaque_at, big_endian(asked + 13), 7, 10);
                else {
                    asked = memmem(asked, big_endian(asked) + 4, "\"opaque\":", 9);
                    if (!asked) exit(4);
                    memcpy(out + out_size + opaque_at, asked + 9, 7);
                }
                out_size += size;
                at += big_endian(held[from] + at) + 4;
            }
            memmove(held[from], held[from] + at, held_size[from] -= at);
            if (out_size) send_all(from, out, out_size);
        }
    }
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "answer")) answer(atoi(words[2]));
    if (count != 8 || strcmp(words[1], "drive")) return fprintf(stderr, "load: see the usage in load.c\n"), 64;
    /* Keys of different runs differ, too. */
    next_key = (uint32_t)(now(CLOCK_REALTIME) * 10000);
    read_ring(words[7]);
    drive(atoi(words[2]), atoi(words[3]), atoi(words[4]), atoi(words[5]), atof(words[6]));
    return 0;
}
