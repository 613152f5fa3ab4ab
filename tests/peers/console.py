"""Looks at the console in Chromium, over the DevTools protocol.

    console.py PROGRAM URL tour [FOLDER]     all that the page shows; FOLDER is for pictures
    console.py PROGRAM URL key KEY           that it asks for an API key

The last line is what was found, as JSON.
"""

import asyncio
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

import aiohttp

WAIT_S = 30
SIZE = (1200, 1240)
PHONE = (380, 800)


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
            raise AssertionError(f"{method}: {said['error']}")
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
        for kind in ("keyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

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


async def with_key(page: Page, key: str) -> dict:
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
    await page.click("#forget")
    await page.until("document.querySelector('#key-form')?.hidden === false")
    return {"focus": focus, "refused": refused, "hidden": hidden, "kept": kept, "curl": curl}


async def browse(program: str, url: str, task: str, rest: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        options += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port, path = await debugging(pathlib.Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                address = f"http://127.0.0.1:{port}{path}"
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    page = Page(socket)
                    await page.open(url)
                    if task == "tour":
                        found = await tour(page, url, pathlib.Path(rest[0]) if rest else None)
                    else:
                        found = await with_key(page, rest[0])
                    others = [it for it in page.urls if not it.startswith((url, "data:"))]
                    page.reading.cancel()
                    return {**found, "problems": page.problems, "outside": others, "requests": len(page.urls)}
        finally:
            browser.terminate()
            browser.wait(WAIT_S)


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
