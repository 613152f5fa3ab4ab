"""Looks at the console in Chromium, over the DevTools protocol.

    console.py PROGRAM URL tour [FOLDER]     all that the page shows; FOLDER is for pictures
    console.py PROGRAM URL operate [FOLDER]  logs, and what changes the flow
    console.py PROGRAM URL attack            what pages of other web sites can do
    console.py PROGRAM URL key KEY OPERATOR  that it asks for an API key; the second key may read logs and act
    console.py PROGRAM URL docs KEY          the page of the OpenAPI document, which asks for an API key
    console.py PROGRAM URL api BODY          what a page of another origin gets of the APIs; BODY is a gRPC request, in base64

The last line is what was found, as JSON.
"""

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import aiohttp
import aiohttp.web

WAIT_S = 30
SIZE = (1200, 1240)
PHONE = (380, 800)
# A name that points to this machine.
EVIL = "evil.example"


class Refused(AssertionError):
    """The browser does not follow a command."""


class Page:
    """A tab of a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.number = 0
        self.session = None
        self.answers: dict[int, asyncio.Future] = {}
        self.problems: list[str] = []
        self.urls: list[str] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self.socket:
            said = message.json()
            if "id" in said:
                self.answers.pop(said["id"]).set_result(said)
            else:
                self._note(said["method"], said["params"])

    def _note(self, method: str, params: dict) -> None:
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.urls.append(params["request"]["url"])

    async def send(self, method: str, **params: object) -> dict:
        self.number += 1
        answer = self.answers[self.number] = asyncio.get_running_loop().create_future()
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        await self.socket.send_json(message)
        said = await asyncio.wait_for(answer, WAIT_S)
        if "error" in said:
            raise Refused(f"{method}: {said['error']}")
        return said["result"]

    async def open(self, url: str) -> None:
        target = await self.send("Target.createTarget", url="about:blank")
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        await self.send("Emulation.setScrollbarsHidden", hidden=True)
        await self.resize(*SIZE)
        await self.send("Page.navigate", url=url)

    async def go(self, url: str) -> None:
        await self.send("Page.navigate", url=url)
        await self.until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    async def choose(self, selector: str, value: str, event: str = "change") -> None:
        await self.value(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.value = {json.dumps(value)};"
            f" it.dispatchEvent(new Event({json.dumps(event)}, {{ bubbles: true }})); }})()"
        )

    async def resize(self, width: int, height: int, mobile: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    async def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def value(self, expression: str) -> object:
        said = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            raise AssertionError(f"{expression}: {said['exceptionDetails']}")
        return said["result"].get("value")

    async def until(self, expression: str) -> object:
        """Waits until the expression is true."""
        found = None
        for _ in range(WAIT_S * 10):
            with contextlib.suppress(Refused):
                # A page that is being left evaluates nothing.
                found = await self.value(expression)
            if found:
                return found
            await asyncio.sleep(0.1)
        text = await self.value("document.body.innerText")
        raise AssertionError(f"`{expression}` is {found}; problems: {self.problems}; the page says:\n{text}")

    async def click(self, selector: str) -> None:
        await self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        await self.value(f"document.querySelector({json.dumps(selector)}).click()")

    async def press(self, key: str) -> None:
        # Without its number, the browser itself does nothing with the key.
        number = {"Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number)

    async def picture(self, folder: pathlib.Path | None, name: str) -> None:
        if folder is None:
            return
        await asyncio.sleep(0.3)
        taken = await self.send("Page.captureScreenshot", format="png")
        (folder / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def text_of(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"


async def tour(page: Page, url: str, folder: pathlib.Path | None) -> dict:
    found: dict[str, object] = {}
    await page.prefer("light")
    await page.until("document.querySelectorAll('#picture .node').length > 0")
    found["cards"] = await page.value("[...document.querySelectorAll('#picture .node .title')].map((it) => it.textContent)")
    found["dots"] = await page.value("document.querySelectorAll('#picture .dot.ready').length")
    found["status"] = await page.until("document.querySelector('#status').className && document.querySelector('#status').textContent")
    found["figures"] = await page.value("[...document.querySelectorAll('#figures dd')].map((it) => it.firstChild.textContent)")
    found["rows"] = await page.value("document.querySelectorAll('#nodes tbody tr').length")
    await page.until("document.querySelector('#chart-rate .line.all')?.getAttribute('d').length > 20")
    await page.until("document.querySelector('#chart-latency .line.p50')?.getAttribute('d').length > 5")
    await page.value("document.querySelector('#chart-table').parentElement.open = true")
    found["chart_rows"] = await page.until("document.querySelectorAll('#chart-table tbody tr').length")
    await page.value("document.querySelector('#chart-table').parentElement.open = false")
    await page.picture(folder, "light")
    found.update(await colours(page, folder))
    found.update(await requests(page, folder))
    found.update(await try_it(page, folder))
    found.update(await about(page, folder))
    found.update(await phone(page, folder))
    return found


async def colours(page: Page, folder: pathlib.Path | None) -> dict:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.value(ground)
    await page.prefer("dark")
    dark = await page.value(ground)
    await page.picture(folder, "dark")
    await page.click("#theme")
    chosen = await page.value(ground)
    await page.click("#theme")
    await page.click("#theme")
    await page.prefer("light")
    return {"light": light, "dark": dark, "chosen_light": chosen == light}


async def requests(page: Page, folder: pathlib.Path | None) -> dict:
    # The keyboard moves between the views.
    await page.value("document.querySelector('#tab-overview').focus()")
    await page.press("ArrowRight")
    await page.until("!document.querySelector('#requests').hidden")
    focus = await page.value("document.activeElement.id")
    await page.until("document.querySelectorAll('#failures .request').length > 0")
    await page.click("#failures .request summary")
    cause = await page.until(text_of("#failures .request .cause"))
    await page.until("document.querySelectorAll('#failures .request[open] .track .bar').length >= 2")
    await page.click("#slow .request summary")
    await page.until("document.querySelectorAll('#slow .request[open] .track .bar').length >= 2")
    slowest = await page.value(text_of("#slow .request .took"))
    parts = await page.value("[...document.querySelectorAll('#slow .request[open] .waterfall tbody th')].map((it) => it.textContent)")
    await page.picture(folder, "requests")
    images = await page.value("document.querySelectorAll('#failures img, #failures script, #failures b').length")
    return {"focus": focus, "cause": cause, "slowest": slowest, "parts": parts, "elements_of_clients": images}


async def try_it(page: Page, folder: pathlib.Path | None) -> dict:
    await page.click("#tab-try")
    await page.until("document.querySelector('#try-endpoint').value === '/encode'")
    await page.click("#try-send")
    await page.until("document.querySelectorAll('#try-reply .heat').length === 3")
    await page.picture(folder, "try")
    status = await page.value(text_of("#try-status"))
    cells = await page.value("[...document.querySelectorAll('#try-reply .similar')].map((it) => Number(it.textContent))")
    numbers = await page.value("document.querySelector('#try-reply .heat').childElementCount")
    code = {}
    for language in ("curl", "Python", "Rust"):
        await page.click(f"#code-tabs [data-name={language}]")
        code[language] = await page.value(text_of("#code"))
    await page.value("document.querySelector('#try-parameters').value = '{'")
    await page.click("#try-send")
    invalid = await page.value(text_of("#try-status"))
    await page.value("document.querySelector('#try-parameters').value = '{}'")
    return {"tried": status, "similar": cells, "numbers": numbers, "code": code, "invalid": invalid}


async def about(page: Page, folder: pathlib.Path | None) -> dict:
    await page.click("#tab-about")
    models = await page.until(text_of("#models"))
    await page.picture(folder, "about")
    return {"models": models, "plan": await page.value(text_of("#plan")), "endpoints": await page.value(text_of("#endpoints"))}


async def phone(page: Page, folder: pathlib.Path | None) -> dict:
    await page.resize(*PHONE, mobile=True)
    widths = {}
    for view in ("try", "requests", "about", "overview"):
        await page.click(f"#tab-{view}")
        await asyncio.sleep(0.2)
        widths[view] = await page.value("document.documentElement.scrollWidth")
        await page.picture(folder, f"phone-{view}")
    return {"widths": widths}


ENTRIES = "[...document.querySelectorAll('#log-lines .entry')]"
SAID = ENTRIES + ".map((it) => [it.querySelector('.who').textContent, it.className, it.querySelector('.said').textContent])"


async def post(url: str, endpoint: str, request_id: str) -> None:
    headers = {"x-request-id": request_id}
    body = {"data": [{"text": "a"}]}
    async with aiohttp.ClientSession() as session, session.post(url + endpoint, json=body, headers=headers) as response:
        await response.read()


async def operate(page: Page, url: str, file: pathlib.Path, folder: pathlib.Path | None) -> dict:
    await page.prefer("light")
    found = await logs(page, url, folder)
    found.update(await processes(page, file, folder))
    await page.resize(*PHONE, mobile=True)
    widths = {}
    for view in ("processes", "logs"):
        await page.click(f"#tab-{view}")
        await page.until(f"!document.querySelector('#{view}').hidden")
        widths[view] = await page.value("document.documentElement.scrollWidth")
        await page.picture(folder, f"phone-{view}")
    return {**found, "widths": widths}


async def logs(page: Page, url: str, folder: pathlib.Path | None) -> dict:
    # From a failed request to its lines.
    await page.click("#tab-requests")
    await page.click("#failures .request summary")
    await page.click("#failures .request[open] .log-of")
    await page.until(f"{SAID}.length >= 2")
    of_request = await page.value(SAID)
    focus = await page.value("document.activeElement.id")
    # New lines follow; what clients send stays text.
    await page.click("#log-clear")
    await page.until("document.querySelector('#log-request').value === ''")
    await page.until(f"{SAID}.some(([who]) => who === 'gateway')")
    await post(url, "fail", "<img src=x>follow-me")
    await page.until(f"{SAID}.some(([, , said]) => said.includes('<img src=x>follow-me'))")
    elements = await page.value("document.querySelectorAll('#log-lines img, #log-lines b, #log-lines script').length")
    await page.picture(folder, "logs")
    await page.prefer("dark")
    await page.picture(folder, "logs-dark")
    await page.prefer("light")
    # Filters.
    await page.choose("#log-level", "error")
    await page.until(f"{ENTRIES}.length > 0 && {ENTRIES}.every((it) => it.classList.contains('error'))")
    errors = await page.value(SAID)
    await page.choose("#log-level", "")
    await page.choose("#log-process", "encoder")
    await page.until(f"{SAID}.length > 0 && {SAID}.every(([who]) => who === 'encoder')")
    await page.choose("#log-process", "")
    await page.choose("#log-text", "NOT TODAY", "input")
    await page.until(f"{SAID}.length > 0 && {SAID}.every(([, , said]) => said.includes('not today'))")
    await page.choose("#log-text", "nobody wrote this", "input")
    await page.until("document.querySelector('#log-status').textContent.startsWith('No lines match')")
    await page.choose("#log-text", "", "input")
    # Without following, nothing moves.
    await page.until(f"{SAID}.length > 2")
    await page.click("#log-follow")
    pressed = await page.value("document.querySelector('#log-follow').getAttribute('aria-pressed')")
    await page.click("#log-follow")
    return {"of_request": of_request, "focus": focus, "elements": elements, "errors": errors, "pressed": pressed}


ROWS = (
    "[...document.querySelectorAll('#process-table tbody tr')].map((row) =>"
    " [row.querySelector('th').textContent, row.cells[1].textContent, row.cells[2].textContent])"
)


async def confirm(page: Page, done: str) -> str:
    await page.until("document.querySelector('#confirm').open")
    await page.click("#confirm-yes")
    return await page.until(f"document.querySelector('#action-status').textContent.startsWith({json.dumps(done)}) && document.querySelector('#action-status').textContent")


async def flow_file(page: Page, file: pathlib.Path) -> dict:
    """The flow file gets a key that flow does not know, and then a comment instead."""
    shown = await page.value("document.querySelector('#footer').textContent")
    # The footer has the time of the last complete update. When it changes, the state of the file has been shown.
    await page.until(f"document.querySelector('#footer').textContent !== {json.dumps(shown)}")
    unchanged = await page.value("document.querySelector('#file-state').hidden")
    text = file.read_text()
    file.write_text(text + "\nnonsense: 1\n")
    problem = await page.until("!document.querySelector('#file-problem').hidden && document.querySelector('#file-state').innerText")
    file.write_text(text + "\n# A comment.\n")
    changed = await page.until("document.querySelector('#file-problem').hidden && document.querySelector('#file-state').innerText")
    return {"unchanged": unchanged, "problem": problem, "changed": changed}


async def processes(page: Page, file: pathlib.Path, folder: pathlib.Path | None) -> dict:
    await page.click("#tab-processes")
    before = await page.until(f"{ROWS}.every(([, state]) => state === 'ready') && {ROWS}.length > 0 && {ROWS}")
    await page.picture(folder, "processes")
    await page.prefer("dark")
    await page.picture(folder, "processes-dark")
    await page.prefer("light")
    pid = next(pid for name, _, pid in before if name == "faulty/rep-0")
    # A question that is not answered changes nothing.
    await page.click("[data-action='Restart faulty/rep-0']")
    await page.until("document.querySelector('#confirm').open")
    careful = await page.value("document.activeElement.id")
    await page.press("Escape")
    await page.until("!document.querySelector('#confirm').open")
    untouched = await page.value("document.querySelector('#action-status').textContent")
    # Restart, scale, reload.
    await page.click("[data-action='Restart faulty/rep-0']")
    restarted = await confirm(page, "Restarting faulty/rep-0: done")
    is_other = f"{ROWS}.some(([name, state, pid]) => name === 'faulty/rep-0' && state === 'ready' && pid !== '{pid}')"
    await page.until(is_other)
    await page.value("document.querySelector('[data-replicas=faulty]').value = 3")
    await page.click("[data-action='Scale faulty']")
    scaled = await confirm(page, "Scaling faulty to 3: done")
    await page.until(f"{ROWS}.filter(([name]) => name.startsWith('faulty/')).length === 3")
    of_file = await flow_file(page, file)
    await page.click("#reload")
    reloaded = await confirm(page, "Reloading the flow file: done")
    await page.until(f"{ROWS}.filter(([name]) => name.startsWith('faulty/')).length === 2")
    await page.until("document.querySelector('#file-state').hidden")
    # A process that is its executor's only one.
    await page.click("[data-action='Restart encoder']")
    again = await confirm(page, "Restarting encoder: done")
    said = [restarted, scaled, reloaded, again]
    names = [name for name, _, _ in before]
    buttons = await page.value("[...document.querySelectorAll('#process-table [data-action]')].map((it) => it.dataset.action)")
    return {"names": names, "careful": careful, "untouched": untouched, "said": said, "buttons": buttons, "file": of_file}


ATTACK = """
(async (url) => {
  const action = JSON.stringify({ action: "restart", name: "faulty" });
  const page = { "x-flow-console": "1", "content-type": "application/json" };
  const tries = [
    ["actions", { method: "POST", mode: "no-cors", body: action }],
    ["actions", { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body: action }],
    ["actions", { method: "POST", headers: page, body: action }],
    ["logs", { headers: page }],
    ["logs", { mode: "no-cors" }],
    ["processes", { headers: page }],
    ["overview", { headers: page }],
  ];
  const told = tries.map(([path, how]) => fetch(url + "_console/api/" + path, how)
    .then((it) => (it.type === "opaque" ? "opaque" : it.status), () => "failed"));
  return Promise.all(told);
})
"""


# Whether a page in a frame can be read, once the browser has loaded it or refused to.
FRAME = """(url) => new Promise((done) => {
  const frame = document.createElement('iframe');
  frame.onload = () => {
    try { done((frame.contentDocument?.URL ?? 'about:blank') === 'about:blank' ? 'closed' : 'open'); } catch { done('closed'); }
  };
  frame.src = url;
  document.body.replaceChildren(frame);
})"""


@contextlib.asynccontextmanager
async def other_site(title: str):
    """An empty page at a port of its own, and its URL."""
    async def serve(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(text=f"<!doctype html><title>{title}</title>", content_type="text/html")

    site = aiohttp.web.Application()
    site.router.add_get("/", serve)
    runner = aiohttp.web.AppRunner(site)
    await runner.setup()
    listener = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


# What the APIs answer a script of a page: JSON over HTTP, and a message over gRPC-Web with its trailers.
APIS = """(async (url, body) => {
  const post = async (path, type, body, headers = {}) => {
    const reply = await fetch(url + path, { method: 'POST', headers: { 'content-type': type, ...headers }, body });
    return { status: reply.status, id: reply.headers.get('x-request-id'), bytes: new Uint8Array(await reply.arrayBuffer()) };
  };
  const text = (bytes) => new TextDecoder().decode(bytes);
  const frames = (bytes) => {
    const found = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + 5 + new DataView(bytes.buffer, at + 1, 4).getUint32(0);
      found.push({ trailers: bytes[at] === 128, content: bytes.subarray(at + 5, end) });
      at = end;
    }
    return found;
  };
  const http = async () => {
    const sent = JSON.stringify({ data: [{ text: 'hello' }], execEndpoint: '/any' });
    const reply = await post('post', 'application/json', sent, { 'x-request-id': 'from-a-page' });
    return { status: reply.status, id: reply.id, text: JSON.parse(text(reply.bytes)).data[0].text };
  };
  const grpc = async () => {
    const sent = Uint8Array.from(atob(body), (it) => it.charCodeAt(0));
    const path = 'jina.JinaSingleDataRequestRPC/process_single_data';
    const reply = await post(path, 'application/grpc-web+proto', sent, { 'x-grpc-web': '1' });
    const [message, trailers] = frames(reply.bytes);
    return { status: reply.status, message: btoa(String.fromCharCode(...message.content)), trailers: text(trailers.content) };
  };
  const or = (reason) => reason.name;
  return [await http().catch(or), await grpc().catch(or)];
})"""


async def apis(page: Page, url: str, body: str) -> dict:
    async with other_site("page") as site:
        await page.go(site)
        http, grpc = await page.value(f"{APIS}({json.dumps(url)}, {json.dumps(body)})")
        return {"http": http, "grpc": grpc}


async def attack(page: Page, url: str) -> dict:
    """Pages of another port, and of a name that points to the gateway, ask for what the console may."""
    async with other_site("evil") as evil:
        told = {}
        for name, at, target in [
            ("port", evil, url),
            ("name", evil.replace("127.0.0.1", EVIL), url),
            ("rebound", url.replace("127.0.0.1", EVIL), url.replace("127.0.0.1", EVIL)),
        ]:
            await page.go(at)
            told[name] = await page.value(f"{ATTACK}({json.dumps(target)})")
        shown = await page.until("!document.querySelector('#problem').hidden && document.querySelector('#problem').textContent")
        # A frame around the console stays empty.
        await page.go(evil)
        framed = await page.value(f"({FRAME})({json.dumps(url)})")
        return {"told": told, "shown": shown, "framed": framed}


async def with_key(page: Page, key: str, operator: str) -> dict:
    await page.until("document.querySelector('#key-form')?.hidden === false")
    focus = await page.value("document.activeElement.id")
    fill = "document.querySelector('#key').value = {}; document.querySelector('#key-form button').click()"
    await page.value(fill.format("'wrong'"))
    refused = await page.until(text_of("#key-why"))
    await page.value(fill.format(json.dumps(key)))
    await page.until("document.querySelectorAll('#picture .node').length > 0")
    hidden = await page.value("document.querySelector('#key-form').hidden")
    kept = await page.value("[sessionStorage.getItem('flow-api-key'), localStorage.getItem('flow-api-key'), document.cookie]")
    await page.click("#tab-try")
    await page.click("#try-send")
    await page.until("document.querySelector('#try-status').textContent.startsWith('Answered')")
    curl = await page.value(text_of("#code"))
    await page.click("#tab-logs")
    no_logs = await page.until(text_of("#log-why"))
    await page.click("#tab-processes")
    no_actions = await page.until(text_of("#process-why"))
    hidden = hidden and await page.value("document.querySelector('#log-view').hidden && document.querySelector('#process-view').hidden")
    await page.click("#forget")
    await page.until("document.querySelector('#key-form')?.hidden === false")
    await page.value(fill.format(json.dumps(operator)))
    await page.click("#tab-logs")
    await page.until(f"{ENTRIES}.length > 0")
    await page.click("#tab-processes")
    await page.click("[data-action='Restart encoder']")
    restarted = await confirm(page, "Restarting encoder: done")
    refusals = {"no_logs": no_logs, "no_actions": no_actions, "restarted": restarted}
    return {"focus": focus, "refused": refused, "hidden": hidden, "kept": kept, "curl": curl, **refusals}


async def docs(page: Page, url: str, key: str) -> dict:
    await page.go(url + "docs")
    await page.until("document.querySelector('#key-form').hidden === false")
    await page.choose("#key", "wrong", "input")
    await page.click("#key-form button")
    refused = await page.until(text_of("#problem"))
    await page.choose("#key", key, "input")
    await page.click("#key-form button")
    await page.until("document.querySelectorAll('.opblock').length > 0")
    hidden = await page.value("document.querySelector('#key-form').hidden")
    title = await page.value("document.title")
    paths = await page.value("[...document.querySelectorAll('.opblock-summary-path')].map((it) => it.dataset.path)")
    route = "document.querySelector('.opblock-summary-path[data-path=\"/post\"]').closest('.opblock')"
    await page.value(f"{route}.querySelector('.opblock-summary-control').click()")
    for button in (".try-out__btn", ".execute"):
        await page.until(f"{route}.querySelector('{button}') !== null")
        await page.value(f"{route}.querySelector('{button}').click()")
    status = await page.until(f"{route}.querySelector('.live-responses-table tbody .response-col_status')?.textContent")
    colour = await page.value(f"getComputedStyle({route}).backgroundColor")
    return {"refused": refused, "hidden": hidden, "title": title, "paths": paths, "status": status, "colour": colour}


async def browse(program: str, url: str, task: str, rest: list[str]) -> dict:
    # Chromium's helpers may write to it a little longer than the browser runs.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        options += [f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"]
        options += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "TMPDIR": profile}
        browser = subprocess.Popen([program, *options], **silent, env=environment, start_new_session=True)
        try:
            port, path = await debugging(pathlib.Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                address = f"http://127.0.0.1:{port}{path}"
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    page = Page(socket)
                    await page.open(url)
                    paths = [*map(pathlib.Path, rest), None]
                    match task:
                        case "tour":
                            found = await tour(page, url, paths[0])
                        case "operate":
                            found = await operate(page, url, paths[0], paths[1])
                        case "attack":
                            found = await attack(page, url)
                        case "docs":
                            found = await docs(page, url, *rest)
                        case "api":
                            found = await apis(page, url, *rest)
                        case _:
                            found = await with_key(page, *rest)
                    others = [it for it in page.urls if not it.startswith((url, "data:"))]
                    page.reading.cancel()
                    return {**found, "problems": page.problems, "outside": others, "requests": len(page.urls)}
        finally:
            browser.terminate()
            browser.wait(WAIT_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)


async def debugging(file: pathlib.Path) -> tuple[str, str]:
    """The port and the path at which the browser can be driven."""
    for _ in range(WAIT_S * 10):
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return lines[0], lines[1]
        await asyncio.sleep(0.1)
    raise AssertionError("the browser does not start")


program, url, task, *rest = sys.argv[1:]
print(json.dumps(asyncio.run(browse(program, url, task, rest))))
